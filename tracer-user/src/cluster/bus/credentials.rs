//! What proves to a server who connects.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One of the ways that NATS has.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credentials {
    /// A file of credentials: a user's JWT and key.
    Jwt(String),
    /// The seed of a user's key.
    Key(String),
    /// A user's name and password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that all users share.
    Token(String),
}

impl std::fmt::Debug for Credentials {
    /// Secrets are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Jwt(_) => "Jwt",
            Self::Key(_) => "Key",
            Self::Password { .. } => "Password",
            Self::Token(_) => "Token",
        })
    }
}

/// Why a file has no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It cannot be read.
    #[error("cannot read the credentials: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It has something else.
    #[error(
        "these are no credentials: write USER:PASSWORD, a token, the seed of a user's nkey, or give a .creds file"
    )]
    Unknown,
}

impl Credentials {
    /// From a file.
    ///
    /// # Errors
    /// There are none in it.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        const MOST_BYTES: u64 = 64 << 10;
        let mut text = String::new();
        std::fs::File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
        Self::parse(&text).ok_or(CredentialsError::Unknown)
    }

    /// From the text of such a file.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains("BEGIN NATS USER JWT") {
            return Some(Self::Jwt(text.to_owned()));
        }
        let line = text.trim();
        if line.is_empty() || line.contains(char::is_whitespace) {
            return None;
        }
        // The seed of a user: 32 bytes and what they are, in base 32.
        if line.starts_with("SU") && line.len() == 58 {
            return Some(Self::Key(line.to_owned()));
        }
        Some(match line.split_once(':') {
            Some((user, password)) => Self::Password { user: user.into(), password: password.into() },
            None => Self::Token(line.to_owned()),
        })
    }

    /// The user's name, where it is part of them.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Password { user, .. } => Some(user),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_file_says_which_kind_of_credentials_it_is() {
        let password = Credentials::Password { user: "alice".into(), password: "s:3".into() };
        assert_eq!(Credentials::parse("alice:s:3\n"), Some(password));
        assert_eq!(Credentials::parse("s3cret"), Some(Credentials::Token("s3cret".into())));
        let seed = format!("SU{}", "A".repeat(56));
        assert_eq!(Credentials::parse(&seed), Some(Credentials::Key(seed.clone())));
        let jwt = "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n";
        assert_eq!(Credentials::parse(jwt), Some(Credentials::Jwt(jwt.into())));
        for other in ["", "\n", "two words", "two\nlines"] {
            assert_eq!(Credentials::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", Credentials::parse("alice:s3cret"));
        assert!(!shown.contains("s3cret") && !shown.contains("alice"), "{shown}");
    }
}
