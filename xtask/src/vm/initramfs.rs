//! The first file system of a machine: a shell and the modules that it takes to mount the real one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::kernels::UnpackedKernel;
use crate::process::output;

/// Without them the root cannot be mounted.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];
const BUSYBOX: &str = "/bin/busybox";

/// The root is the machine's own, read-only; what is written goes into memory.
const INIT: &str = r#"#!/bin/busybox sh
B=/bin/busybox
$B mount -t devtmpfs dev /dev
$B mount -t proc proc /proc
for module in $($B cat /order); do $B insmod /modules/$module || echo "vm: no $module"; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro,cache=mmap root /lower || echo "vm: no root"
$B mount -t tmpfs -o size=70% tmpfs /upper
$B mkdir /upper/data /upper/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /root
$B mkdir -p /root/vm
$B cp /run.sh /root/vm/run.sh
$B mount --move /dev /root/dev
$B mount --move /proc /root/proc
exec $B switch_root /root /bin/bash /vm/run.sh
"#;

/// Makes it, with a script that is run once all is mounted.
pub(super) fn build(kernel: &UnpackedKernel, script: &str) -> Result<PathBuf> {
    let folder = kernel.folder.join("initramfs");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for part in ["bin", "dev", "proc", "lower", "upper", "root", "modules"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::copy(BUSYBOX, folder.join("bin/busybox")).context("busybox")?;
    let order = copy_modules(kernel, &folder.join("modules"))?;
    fs::write(folder.join("order"), order.join("\n"))?;
    write_program(&folder.join("init"), INIT)?;
    fs::write(folder.join("run.sh"), script)?;
    let archive = kernel.folder.join("initramfs.cpio");
    pack(&folder, &archive)?;
    Ok(archive)
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Copies the modules and all that they need, unpacked; gives back their names in the order in which they are loaded.
fn copy_modules(kernel: &UnpackedKernel, folder: &Path) -> Result<Vec<String>> {
    let mut order = Vec::new();
    for module in MODULES {
        let mut needs = Command::new("modprobe");
        needs.arg("-d").arg(&kernel.folder).args(["-S", &kernel.release, "-D", module]);
        let Ok(lines) = output(&mut needs) else {
            eprintln!("xtask: {module} is no module of {}: taken for built in", kernel.release);
            continue;
        };
        for path in lines.lines().filter_map(|line| line.strip_prefix("insmod ")).map(str::trim) {
            let file = Path::new(path).file_name().context("a module without a name")?.to_string_lossy();
            let name = file.strip_suffix(".xz").unwrap_or(&file).to_owned();
            if order.contains(&name) {
                continue;
            }
            if file.ends_with(".xz") {
                let unpacked = Command::new("xz").arg("-dc").arg(path).output().context("xz")?;
                fs::write(folder.join(&name), unpacked.stdout)?;
            } else {
                fs::copy(path, folder.join(&name)).with_context(|| path.to_owned())?;
            }
            order.push(name);
        }
    }
    Ok(order)
}

fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let mut list = Command::new("find").arg(".").current_dir(folder).stdout(Stdio::piped()).spawn()?;
    let names = list.stdout.take().context("the list of files")?;
    let out = fs::File::create(archive)?;
    let packed = Command::new("cpio")
        .args(["-o", "-H", "newc", "--quiet"])
        .current_dir(folder)
        .stdin(names)
        .stdout(out)
        .status();
    list.wait()?;
    if !packed.context("cpio")?.success() {
        bail!("cpio failed");
    }
    Ok(())
}
