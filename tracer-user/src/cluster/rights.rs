//! Who may watch which jobs.

/// How a user's name is looked up.
pub trait Accounts {
    /// The number of a user; none: there is no such user here.
    fn uid(&self, name: &str) -> Option<u32>;
}

/// The accounts of this machine, from wherever it has them.
pub struct MachineAccounts;

impl Accounts for MachineAccounts {
    fn uid(&self, name: &str) -> Option<u32> {
        nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
    }
}

/// What a user may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleJobs {
    /// Everybody's.
    All,
    /// Their own.
    OfUser(u32),
    /// None: there is no such user here.
    None,
}

impl VisibleJobs {
    /// Of a user, by the name that the bus knows. Root sees all, and so do operators.
    pub fn of(user: &str, operators: &[String], accounts: &dyn Accounts) -> Self {
        let is_operator = operators.iter().any(|operator| operator == user);
        match accounts.uid(user) {
            _ if is_operator => Self::All,
            Some(0) => Self::All,
            Some(uid) => Self::OfUser(uid),
            None => Self::None,
        }
    }

    /// Whether a job is among them: all of its ranks, as they run.
    pub fn include(self, uids: impl IntoIterator<Item = u32>) -> bool {
        let mut uids = uids.into_iter().peekable();
        match self {
            Self::All => true,
            Self::OfUser(own) => uids.peek().is_some() && uids.all(|uid| uid == own),
            Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Accounts for Fixed {
        fn uid(&self, name: &str) -> Option<u32> {
            match name {
                "root" => Some(0),
                "alice" => Some(1000),
                "bob" => Some(1001),
                _ => None,
            }
        }
    }

    fn sees(user: &str, uids: &[u32]) -> bool {
        let operators = ["bob".to_owned(), "desk".to_owned()];
        VisibleJobs::of(user, &operators, &Fixed).include(uids.iter().copied())
    }

    #[test]
    fn users_see_their_own_jobs_and_nobody_elses() {
        assert!(sees("alice", &[1000, 1000]));
        assert!(!sees("alice", &[1001]) && !sees("alice", &[0]));
        assert!(!sees("alice", &[1000, 1001]), "a rank that runs as somebody else");
        assert!(!sees("alice", &[]) && !sees("nobody", &[1000]) && !sees("", &[1000]));
    }

    #[test]
    fn root_and_operators_see_all() {
        assert!(sees("root", &[1000]) && sees("bob", &[1000]) && sees("desk", &[0, 1000]));
    }
}
