//! Kernels to boot: fetched from Debian's archive into a folder of their own, and unpacked there. Nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output, run, target_dir};

/// A stock kernel of Debian.
pub(super) struct DebianKernel {
    /// As it is named on the command line, and as its release begins.
    pub version: &'static str,
    /// The archive that has it: path, suite.
    archive: (&'static str, &'static str),
    /// Packages, by the beginning of their names; the newest of each is taken.
    packages: &'static [&'static str],
}

/// All that can be booted.
pub(super) const KERNELS: [DebianKernel; 3] = [
    DebianKernel {
        version: "6.1",
        archive: ("debian-security", "bookworm-security"),
        packages: &["linux-image-6.1."],
    },
    DebianKernel {
        version: "6.12",
        archive: ("debian-security", "bookworm-security"),
        packages: &["linux-image-6.12."],
    },
    DebianKernel {
        version: "7.2",
        archive: ("debian", "trixie-backports"),
        packages: &["linux-binary-7.2.", "linux-modules-7.2."],
    },
];

const MIRROR: &str = "http://deb.debian.org";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Kernels with other settings, or without what they are made for.
const OTHER_KINDS: [&str; 5] = ["-dbg", "-cloud-", "-rt-", "-unsigned", "-headers"];

/// A kernel that was unpacked.
pub(super) struct UnpackedKernel {
    /// The image to boot.
    pub image: PathBuf,
    /// The folder with `lib/modules` in it.
    pub folder: PathBuf,
    /// As `uname -r` says it.
    pub release: String,
}

/// The kernel in a folder of ours: as it was fetched before, or fetched now.
pub(super) fn fetch(kernel: &DebianKernel) -> Result<UnpackedKernel> {
    let folder = target_dir().join("vm").join(kernel.version);
    if let Ok(found) = unpacked(&folder) {
        return Ok(found);
    }
    let apt = PrivateApt::new(&folder.join("apt"), kernel)?;
    run(apt.command("apt-get").args(["update", "-q"]))?;
    let names = output(apt.command("apt-cache").args(["pkgnames", "linux-"]))?;
    let packages: Vec<&str> =
        kernel.packages.iter().map(|first| newest(&names, first)).collect::<Result<_>>()?;
    run(apt.command("apt-get").args(["download", "-q"]).args(&packages))?;
    for name in packages {
        let file = fs::read_dir(&apt.folder)?.flatten().map(|entry| entry.path());
        let is_it = |path: &PathBuf| {
            path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}_")))
        };
        let file = file.into_iter().find(is_it).with_context(|| format!("{name} was not downloaded"))?;
        run(Command::new("dpkg").arg("-x").arg(file).arg(&folder))?;
    }
    // Newer packages have their modules where /lib leads to.
    if !folder.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", folder.join("lib"))?;
    }
    let found = unpacked_image(&folder)?;
    run(Command::new("depmod").arg("-b").arg(&folder).arg(&found.release))?;
    Ok(found)
}

/// Only one whose modules are known: an earlier try may have ended early.
fn unpacked(folder: &Path) -> Result<UnpackedKernel> {
    let found = unpacked_image(folder)?;
    if !folder.join("lib/modules").join(&found.release).join("modules.dep.bin").exists() {
        bail!("it was not unpacked to the end");
    }
    Ok(found)
}

fn unpacked_image(folder: &Path) -> Result<UnpackedKernel> {
    let modules = folder.join("lib/modules");
    let release = fs::read_dir(&modules)?.flatten().next().context("there are no modules")?;
    let release = release.file_name().to_string_lossy().into_owned();
    let places =
        [folder.join("boot").join(format!("vmlinuz-{release}")), modules.join(&release).join("vmlinuz")];
    let image = places.into_iter().find(|place| place.exists()).context("there is no kernel image")?;
    Ok(UnpackedKernel { image, folder: folder.to_owned(), release })
}

/// The newest of the packages whose names begin so.
fn newest<'n>(names: &'n str, first: &str) -> Result<&'n str> {
    let is_wanted = |name: &&str| {
        name.starts_with(first)
            && name.ends_with("-amd64")
            && !OTHER_KINDS.iter().any(|part| name.contains(part))
    };
    let numbers = |name: &&str| -> Vec<u64> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    names
        .lines()
        .filter(is_wanted)
        .max_by_key(numbers)
        .with_context(|| format!("Debian has no package {first}*-amd64"))
}

/// Apt with lists of its own: those of the machine stay as they are.
struct PrivateApt {
    folder: PathBuf,
}

impl PrivateApt {
    fn new(folder: &Path, kernel: &DebianKernel) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let (archive, suite) = kernel.archive;
        fs::write(
            folder.join("sources.list"),
            format!("deb [signed-by={KEYS}] {MIRROR}/{archive} {suite} main\n"),
        )?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
        for option in [
            setting("Dir::Etc::sourcelist", &self.folder.join("sources.list")),
            setting("Dir::Etc::sourceparts", Path::new("/dev/null")),
            setting("Dir::State::lists", &self.folder.join("lists")),
            setting("Dir::Cache", &self.folder.join("cache")),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let names = "linux-image-6.12.9+deb12-amd64\nlinux-image-6.12.117+deb12-amd64\nlinux-image-6.12-amd64\n\
                     linux-image-6.12.118+deb12-rt-amd64\nlinux-image-6.12.119+deb12-cloud-amd64\nlinux-image-6.1.0-9-amd64\n";
        assert_eq!(newest(names, "linux-image-6.12.").unwrap(), "linux-image-6.12.117+deb12-amd64");
        assert_eq!(newest(names, "linux-image-6.1.").unwrap(), "linux-image-6.1.0-9-amd64");
        assert!(newest(names, "linux-image-7.2.").is_err());
    }
}
