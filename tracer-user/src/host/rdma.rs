//! Addresses of this machine's RDMA devices, from `/sys/class/infiniband`: by them both ends of a connection know its name.

use std::fs;
use std::path::Path;

use analyzer::RdmaAddress;

const DEVICES: &str = "/sys/class/infiniband";
/// Devices, ports and numbers of addresses that are looked at.
const MOST_ENTRIES: usize = 4096;

/// All of them; none where there is no RDMA.
pub(crate) fn addresses() -> Vec<RdmaAddress> {
    addresses_in(Path::new(DEVICES))
}

fn addresses_in(devices: &Path) -> Vec<RdmaAddress> {
    let mut found = Vec::new();
    for device in names(devices) {
        let ports = devices.join(&device).join("ports");
        for (name, port) in numbers(&ports) {
            let (folder, device) = (ports.join(name), device_name(&device));
            let mut add = |index, address| found.push(RdmaAddress { device, port, index, address });
            if let Some(lid) = read(&folder.join("lid")).and_then(|text| lid(&text)) {
                add(None, [0, lid]);
            }
            for (name, index) in numbers(&folder.join("gids")) {
                let address = read(&folder.join("gids").join(name)).and_then(|text| gid(&text));
                if let Some(address) = address.filter(|address| *address != [0, 0]) {
                    add(Some(index), address);
                }
            }
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn numbers(folder: &Path) -> Vec<(String, u8)> {
    names(folder).into_iter().filter_map(|name| name.parse().ok().map(|number| (name, number))).collect()
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

/// As much of it as is in a record.
pub(super) fn device_name(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name.bytes()).for_each(|(byte, of)| *byte = of);
    halves(bytes)
}

fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let (halves, _) = bytes.as_chunks::<8>();
    [u64::from_ne_bytes(halves[0]), u64::from_ne_bytes(halves[1])]
}

/// `0xe`: a LID of a port that has one.
fn lid(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok().filter(|lid| *lid != 0)
}

/// Eight groups of four digits: `fe80:0000:0000:0000:0202:c9ff:fe00:0001`.
fn gid(text: &str) -> Option<[u64; 2]> {
    Some(halves(text.trim().parse::<std::net::Ipv6Addr>().ok()?.octets()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_by_device_port_and_number() {
        let root = tempfile::tempdir().expect("a folder");
        let port = root.path().join("rxe0/ports/1");
        fs::create_dir_all(port.join("gids")).expect("folders");
        fs::write(port.join("lid"), "0x1f\n").expect("written");
        fs::write(port.join("gids/0"), "0000:0000:0000:0000:0000:0000:0000:0000\n").expect("written");
        fs::write(port.join("gids/1"), "0000:0000:0000:0000:0000:ffff:0a4d:0001\n").expect("written");
        let device = [u64::from_ne_bytes(*b"rxe0\0\0\0\0"), 0];
        let gid = [0, u64::from_ne_bytes([0, 0, 0xff, 0xff, 10, 77, 0, 1])];
        let of = |index, address| RdmaAddress { device, port: 1, index, address };
        let mut found = addresses_in(root.path());
        found.sort_by_key(|found| found.index);
        assert_eq!(found, [of(None, [0, 0x1f]), of(Some(1), gid)]);
        assert_eq!(addresses_in(&root.path().join("none")), []);
    }
}
