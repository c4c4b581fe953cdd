//! The user behind sudo: root does for them what they could do for themselves.

use std::ffi::{CString, OsString};

use rustix::fs::{Gid, Uid};

/// Who called sudo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SudoUser {
    /// Number of the user, never root's.
    pub uid: u32,
    /// Number of the user's own group.
    pub gid: u32,
}

impl SudoUser {
    /// Of this process, if it is root's and was started through sudo by somebody else.
    pub fn of_this_process() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::among(rustix::process::geteuid(), variable)
    }

    fn among(effective: Uid, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| variable(name)?.parse().ok().filter(|number| *number != u32::MAX);
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        (effective.is_root() && uid != 0).then_some(Self { uid, gid })
    }

    /// As system calls take it.
    pub fn ids(self) -> (Uid, Gid) {
        (Uid::from_raw(self.uid), Gid::from_raw(self.gid))
    }
}

/// What a process has that is a user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Number of the user.
    pub uid: u32,
    /// Number of the user's own group.
    pub gid: u32,
    /// All groups that the user is in.
    pub groups: Vec<u32>,
    /// Variables of the environment that say who the user is.
    pub variables: Vec<(&'static str, OsString)>,
}

/// Variables that sudo sets for what it starts.
pub const SUDO_VARIABLES: [&str; 4] = ["SUDO_COMMAND", "SUDO_GID", "SUDO_UID", "SUDO_USER"];

impl SudoUser {
    /// As the machine knows this user; one without an account is in one group alone.
    pub fn account(self) -> Account {
        let nobody = Account { uid: self.uid, gid: self.gid, groups: vec![self.gid], variables: Vec::new() };
        let user = nix::unistd::User::from_uid(self.uid.into()).ok().flatten();
        user.map_or(nobody.clone(), |user| Account {
            groups: groups(&user.name, self.gid).unwrap_or(nobody.groups),
            variables: vec![
                ("HOME", user.dir.into()),
                ("LOGNAME", user.name.clone().into()),
                ("SHELL", user.shell.into()),
                ("USER", user.name.into()),
            ],
            ..nobody
        })
    }
}

fn groups(user: &str, own: u32) -> Option<Vec<u32>> {
    let groups = nix::unistd::getgrouplist(&CString::new(user).ok()?, own.into()).ok()?;
    Some(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// Who has the jobs that are started here, unless it is asked otherwise.
pub fn user_of_jobs() -> u32 {
    SudoUser::of_this_process().map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid)
}

/// Without an account: that of nobody.
fn own_group(uid: u32) -> u32 {
    const NOBODY: u32 = 65_534;
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    user.map_or(NOBODY, |user| user.gid.as_raw())
}

/// Does something with the rights that a user has to files. Only root can give its own up for a while; anybody else has no more
/// than the user's, or is refused.
pub fn with_files_of<T>(uid: u32, action: impl FnOnce() -> T) -> T {
    /// Takes the calling thread's own rights back, whatever happens.
    struct Own {
        uid: nix::unistd::Uid,
        gid: nix::unistd::Gid,
        groups: Vec<Gid>,
    }
    impl Drop for Own {
        fn drop(&mut self) {
            nix::unistd::setfsuid(self.uid);
            nix::unistd::setfsgid(self.gid);
            let _ = rustix::thread::set_thread_groups(&self.groups);
        }
    }
    let user = SudoUser { uid, gid: own_group(uid) };
    let groups: Vec<Gid> = rustix::process::getgroups().unwrap_or_default();
    // Refused: who is not root has no more rights than before.
    let theirs: Vec<Gid> = user.account().groups.into_iter().map(Gid::from_raw).collect();
    let _ = rustix::thread::set_thread_groups(&theirs);
    let gid = nix::unistd::setfsgid(user.gid.into());
    let uid = nix::unistd::setfsuid(uid.into());
    let _own = Own { uid, gid, groups };
    action()
}

/// Whether a file of this user is one that the caller trusts as their own: root's, the caller's, or that of the user behind
/// sudo.
pub fn is_trusted_owner(uid: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    uid == 0 || uid == own || SudoUser::of_this_process().is_some_and(|user| user.uid == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_user_behind_sudo_only_for_root_and_only_if_it_is_another() {
        let sudo = |effective, uid: &str, gid: &str| {
            let variable = |name: &str| match name {
                "SUDO_UID" => Some(uid.to_owned()),
                "SUDO_GID" => Some(gid.to_owned()),
                _ => None,
            };
            SudoUser::among(Uid::from_raw(effective), variable)
        };
        assert_eq!(sudo(0, "1000", "100"), Some(SudoUser { uid: 1000, gid: 100 }));
        assert_eq!(sudo(1000, "1001", "100"), None, "who is not root can give nothing away");
        assert_eq!((sudo(0, "0", "0"), sudo(0, "", "100"), sudo(0, "-1", "1")), (None, None, None));
        assert_eq!(sudo(0, "4294967295", "1"), None, "which would mean: leave it as it is");
        assert_eq!(SudoUser::among(Uid::ROOT, |_| None), None);
    }

    #[test]
    fn what_only_root_may_read_is_not_read_with_the_rights_of_another() {
        let can_read = || std::fs::File::open("/etc/shadow").is_ok();
        let before = can_read();
        assert!(!with_files_of(1, can_read));
        assert_eq!(can_read(), before);
    }

    #[test]
    fn an_account_has_a_home_and_groups_and_who_has_none_is_in_one_group() {
        let daemon = SudoUser { uid: 1, gid: 1 }.account();
        assert!(daemon.groups.contains(&1));
        assert!(daemon.variables.contains(&("USER", "daemon".into())), "{daemon:?}");
        assert!(daemon.variables.iter().any(|(name, home)| *name == "HOME" && !home.is_empty()));
        let stranger = SudoUser { uid: 3_999_999_999, gid: 7 }.account();
        assert_eq!((stranger.groups, stranger.variables), (vec![7], vec![]));
    }
}
