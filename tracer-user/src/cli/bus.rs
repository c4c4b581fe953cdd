//! The bus, as the command line names it.

use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::session_args::BusArgs;
use crate::cluster::bus::{Bus, Credentials, NatsBus, NatsSettings};
use crate::host::capabilities::with_own_file_rights;

/// A connection, and who it is for.
pub(super) struct UserBus {
    /// The connection.
    pub(super) bus: Arc<dyn Bus>,
    /// The user, as the bus knows them.
    pub(super) user: String,
}

/// What connects to the bus, if one is named. Files are read with the user's own rights.
///
/// # Errors
/// A file has no credentials.
pub(super) fn settings(args: &BusArgs, name: &str) -> Result<Option<NatsSettings>> {
    if args.bus.is_empty() {
        return Ok(None);
    }
    let read = |path: &std::path::PathBuf| {
        with_own_file_rights(|| Credentials::read(path)).with_context(|| path.display().to_string())
    };
    let credentials = args.bus_credentials.as_ref().map(read).transpose()?;
    Ok(Some(NatsSettings {
        urls: args.bus.clone(),
        credentials,
        root_certificates: args.bus_ca.clone(),
        certificate: args.bus_certificate.clone().zip(args.bus_key.clone()),
        name: name.to_owned(),
    }))
}

/// Connects as the user.
///
/// # Errors
/// No bus, or nobody knows who the user is.
pub(super) fn connect(args: &BusArgs, settings: NatsSettings) -> Result<UserBus> {
    let in_credentials = settings.credentials.as_ref().and_then(|credentials| credentials.user());
    let user = args.bus_user.clone().or_else(|| in_credentials.map(str::to_owned)).or_else(login_name);
    let Some(user) = user else { bail!("this user has no name here: give --bus-user NAME") };
    let bus: Arc<dyn Bus> = Arc::new(NatsBus::connect(settings)?);
    Ok(UserBus { bus, user })
}

/// Of the user behind sudo, if there is one.
fn login_name() -> Option<String> {
    let uid = crate::host::sudo::user_of_jobs();
    nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name)
}
