//! What a process maps, as far as it matters here.

use std::io;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub start: u64,
    pub end: u64,
    pub is_code: bool,
    pub is_writable: bool,
    /// It is of a file, or has a name of the kernel's.
    pub name: String,
}

impl Area {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Code of the dynamic linker, which writes slots when a function is called for the first time.
    pub fn is_linker(&self) -> bool {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        self.is_code && (file.starts_with("ld-linux") || file.starts_with("ld-2.") || file == "ld.so")
    }
}

pub(crate) fn areas(pid: i32) -> io::Result<Vec<Area>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(area).collect())
}

fn area(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Area {
        start: hex(start)?,
        end: hex(end)?,
        is_writable: rights.get(1) == Some(&b'w'),
        is_code: rights.get(2) == Some(&b'x'),
        name: words.nth(3).unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read_and_what_is_none_is_left_out() {
        let code = area("7f00-7f10 r-xp 00001000 fe:01 12   /lib/libc.so.6").expect("a line");
        assert_eq!(
            (code.start, code.end, code.is_code, code.name.as_str()),
            (0x7f00, 0x7f10, true, "/lib/libc.so.6")
        );
        let anonymous = area("10-20 rw-p 0 00:00 0").expect("a line");
        assert_eq!((anonymous.is_writable, anonymous.name.as_str()), (true, ""));
        assert_eq!(area("nonsense"), None);
        let is_linker = |line| area(line).expect("a line").is_linker();
        assert!(is_linker("7f00-7f10 r-xp 0 fe:01 12 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        assert!(!is_linker("7f00-7f10 rw-p 0 fe:01 12 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        assert!(!code.is_linker() && !anonymous.is_linker());
    }
}
