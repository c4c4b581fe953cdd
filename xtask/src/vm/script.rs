//! What is done inside a machine: one shell script, whose marks tell what came of each step.

use std::path::Path;

/// Marks of the script's own lines.
pub(super) const MARK: &str = "vm: ";

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VmStep {
    /// What it is called.
    pub name: String,
    /// A line of shell.
    pub line: String,
    /// It is ended after so long.
    pub limit_s: u64,
}

impl VmStep {
    /// A line of shell.
    pub fn shell(name: &str, line: &str, limit_s: u64) -> Self {
        Self { name: name.to_owned(), line: line.to_owned(), limit_s }
    }
}

/// What is needed before anything else: file systems, a network of its own, and a device that does RDMA in software.
const SET_UP: &str = r#"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm /run
mount -t devpts pts /dev/pts
for place in /dev/shm /run; do mount -t tmpfs tmp $place; done
mount -t tracefs trace /sys/kernel/tracing
mount -t cgroup2 cgroup /sys/fs/cgroup
hostname vm
ip link set lo up
ulimit -l unlimited
# What older kernels' rxe counts checksums with, and does not name as a need.
modprobe -q -d "$KERNEL" crc32_generic
for module in rdma_rxe ib_uverbs rdma_ucm dummy bridge veth; do modprobe -d "$KERNEL" $module || echo "vm: no module $module"; done
ip link add d0 type dummy
ip address add 10.77.0.1/24 dev d0
ip link set d0 up
rdma link add rxe0 type rxe netdev d0 || echo "vm: no RDMA device"
export DMSCOPE_TEST_RDMA=rxe0 DMSCOPE_TEST_SLOWNESS=10
echo 1 > /proc/sys/kernel/printk
"#;

/// The whole script. `work`: the folder in which steps are done; `kernel`: the folder of the kernel's modules.
pub(super) fn script(work: &Path, kernel: &Path, steps: &[VmStep]) -> String {
    let mut text = format!(
        "KERNEL={}\n{SET_UP}cd {}\n",
        quoted(&kernel.display().to_string()),
        quoted(&work.display().to_string())
    );
    text += "echo \"vm: kernel $(uname -r)\"\n";
    for step in steps {
        let name = quoted(&step.name);
        text += &format!(
            "echo \"vm: begin \"{name}\nsince=$SECONDS\ntimeout -k 5 {} bash -c {} < /dev/null 2>&1\n\
             echo \"vm: status $? of \"{name}\" after $((SECONDS - since)) s\"\n",
            step.limit_s,
            quoted(&step.line),
        );
    }
    text + "echo vm: end\necho o > /proc/sysrq-trigger\nwhile :; do :; done\n"
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The status with which a step ended, if the line says so, and its name.
pub(super) fn status_of(line: &str) -> Option<(i32, &str)> {
    let (status, rest) = line.strip_prefix(MARK)?.strip_prefix("status ")?.split_once(" of ")?;
    let (name, _) = rest.rsplit_once(" after ")?;
    Some((status.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_says_of_a_step_is_understood() {
        assert_eq!(
            status_of("vm: status 124 of verbs: a after b after 7 s"),
            Some((124, "verbs: a after b"))
        );
        assert_eq!(status_of("status 0 of a"), None);
    }

    #[test]
    fn quotes_in_a_step_reach_the_shell_as_they_are() {
        let text = script(Path::new("/w"), Path::new("/k"), &[VmStep::shell("n", "echo 'a'", 3)]);
        assert!(text.contains(r"timeout -k 5 3 bash -c 'echo '\''a'\'''"), "{text}");
    }
}
