//! Libraries that write the queues of some RDMA devices themselves, past the functions of the provider: what they send is not
//! seen, and it is said so.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use analyzer::input::Mapping;

use super::mappings::code_files;
use super::verbs::{device_files, has_devices};
use crate::plan::file_name;

const DEVICES: &str = "/sys/class/infiniband_verbs";

/// A library that does so.
struct Bypass {
    /// The kernel's driver of the device.
    driver: &'static str,
    /// How the library's file is called, up to its version.
    library: &'static str,
    /// Names of transports that do so, in UCX_TLS; none: there is no other way.
    transports: &'static [&'static str],
    /// For people.
    what: &'static str,
}

const UCX_MLX5: &str = "UCX writes the send queues of mlx5 devices itself: what it sends over them is not seen. With \
                        UCX_TLS=rc_v,ud_v,self,sm it would be";
const MLX5_TRANSPORTS: &[&str] =
    &["all", "ib", "rc", "rc_x", "rc_mlx5", "dc", "dc_x", "dc_mlx5", "ud", "ud_x", "ud_mlx5"];

const BYPASSES: [Bypass; 2] = [
    Bypass { driver: "mlx5_core", library: "libuct_ib", transports: MLX5_TRANSPORTS, what: UCX_MLX5 },
    Bypass {
        driver: "efa",
        library: "libfabric",
        transports: &[],
        what: "libfabric writes the queues of EFA devices itself: what it sends over them is not seen",
    },
];

/// What of a process is not seen for that reason, for people.
pub(super) fn unseen_work(pid: u32, mappings: &[Mapping]) -> Vec<&'static str> {
    if !has_devices() {
        return Vec::new();
    }
    let drivers: BTreeSet<String> = device_files(pid).filter_map(|device| driver(&device)).collect();
    if drivers.is_empty() {
        return Vec::new();
    }
    let files = code_files(mappings);
    let libraries: Vec<&str> = files.iter().map(|file| file_name(&file.path)).collect();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bypasses(&drivers, &libraries, ucx_transports(&environment).as_deref())
}

/// Of `/dev/infiniband/uverbs0`: `mlx5_core`.
fn driver(device: &Path) -> Option<String> {
    let driver = fs::read_link(Path::new(DEVICES).join(device.file_name()?).join("device/driver")).ok()?;
    driver.file_name().and_then(OsStr::to_str).map(str::to_owned)
}

/// UCX_TLS in an environment.
fn ucx_transports(environment: &[u8]) -> Option<String> {
    let value =
        environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"UCX_TLS="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Pure.
fn bypasses(
    drivers: &BTreeSet<String>,
    libraries: &[&str],
    ucx_transports: Option<&str>,
) -> Vec<&'static str> {
    let is_loaded = |bypass: &&Bypass| {
        drivers.contains(bypass.driver) && libraries.iter().any(|name| name.starts_with(bypass.library))
    };
    let is_wanted = |bypass: &&Bypass| {
        let Some(wanted) = ucx_transports.filter(|_| !bypass.transports.is_empty()) else { return true };
        // A list of what is not wanted leaves something.
        wanted.starts_with('^') || wanted.split(',').any(|name| bypass.transports.contains(&name.trim()))
    };
    BYPASSES.iter().filter(is_loaded).filter(is_wanted).map(|bypass| bypass.what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(driver: &str, library: &str, transports: Option<&str>) -> bool {
        let drivers = BTreeSet::from([driver.to_owned()]);
        !bypasses(&drivers, &["libc.so.6", library], transports).is_empty()
    }

    #[test]
    fn ucx_over_mlx5_is_unseen_unless_it_is_told_to_go_through_the_provider() {
        for transports in [None, Some("rc,self"), Some("sm, dc_x"), Some("^tcp"), Some("all")] {
            assert!(found("mlx5_core", "libuct_ib_mlx5.so.0.0.0", transports), "{transports:?}");
            assert!(found("mlx5_core", "libuct_ib.so.0", transports), "{transports:?}");
        }
        assert!(!found("mlx5_core", "libuct_ib.so.0", Some("rc_v,ud_v,self,sm")));
        assert!(!found("mlx5_core", "libucp.so.0", None), "it has no such library");
        assert!(!found("rdma_rxe", "libuct_ib.so.0", None), "it has no such device");
    }

    #[test]
    fn libfabric_over_efa_is_unseen_whatever_ucx_is_told() {
        assert!(found("efa", "libfabric.so.1", Some("tcp")));
    }

    #[test]
    fn transports_are_read_from_the_environment() {
        assert_eq!(ucx_transports(b"A=1\0UCX_TLS=rc_v\0B=2").as_deref(), Some("rc_v"));
        assert_eq!(ucx_transports(b"XUCX_TLS=rc_v"), None);
    }
}
