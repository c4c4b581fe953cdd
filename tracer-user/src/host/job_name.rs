//! What a job is called on all of its nodes.
//!
//! A launcher's process number names a job on one machine. Over several, what is common to all of its processes does: the
//! name that the launcher gave the job, which ranks find in their environment and its daemons in their arguments.

use std::collections::HashMap;

/// What a process's environment says of the name of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesInEnvironment {
    /// By a launcher.
    launcher: Option<String>,
    /// By a scheduler, in whose job there may be several launchers.
    scheduler: Option<String>,
    /// What the scheduler gave the processors to.
    allocation: Option<String>,
}

impl NamesInEnvironment {
    /// Of variables by name.
    pub fn of(variables: &HashMap<&str, &str>) -> Self {
        Self {
            launcher: variables.get("PMIX_NAMESPACE").map(|namespace| of_pmix_namespace(namespace)),
            scheduler: of_scheduler(variables),
            allocation: variables.get("SLURM_JOB_ID").map(|job| (*job).to_owned()),
        }
    }

    /// The scheduler's number of what the process is a part of, beside other launchers' jobs perhaps.
    pub fn allocation(&self) -> Option<&str> {
        self.allocation.as_deref().filter(|name| is_name(name))
    }
}

/// The name of a rank's job, from its environment and from the arguments of those that it descends from; `None`: nothing names
/// it beyond this machine.
pub fn of_rank<'a>(own: &NamesInEnvironment, mut ancestors: impl Iterator<Item = &'a str>) -> Option<String> {
    let launcher = own.launcher.clone().or_else(|| ancestors.find_map(of_daemon));
    launcher.or_else(|| own.scheduler.clone()).filter(|name| is_name(name))
}

/// The name of the job whose ranks a launcher's daemon starts, from the daemon's arguments.
pub fn of_daemon(arguments: &str) -> Option<String> {
    let mut words = arguments.split(' ');
    while let Some(word) = words.next() {
        let name = match word {
            // Hydra's proxies: where the launcher listens.
            "--control-port" => words.next().map(str::to_owned),
            // Open MPI 4.
            "ess_base_jobid" => words.next().map(of_pmix_namespace),
            // PRRTE, that of Open MPI 5.
            "ess_base_nspace" => words.next().map(of_pmix_namespace),
            _ => None,
        };
        if let Some(name) = name.filter(|name| is_name(name)) {
            return Some(name);
        }
    }
    None
}

/// Jobs that one launcher has started have its number and their own: in the lower half of a number, or behind a sign.
fn of_pmix_namespace(namespace: &str) -> String {
    let namespace = namespace.trim_matches('"');
    match namespace.parse::<u32>() {
        Ok(number) => (number & 0xffff_0000).to_string(),
        // Slurm's own plugin names steps so.
        Err(_) => {
            let name = namespace.split('@').next().unwrap_or_default();
            name.strip_prefix("slurm.pmix.").unwrap_or(name).to_owned()
        }
    }
}

fn of_scheduler(variables: &HashMap<&str, &str>) -> Option<String> {
    let job = variables.get("SLURM_JOB_ID")?;
    Some(match variables.get("SLURM_STEP_ID") {
        Some(step) => format!("{job}.{step}"),
        None => (*job).to_owned(),
    })
}

/// A job says it of itself: what is shown and sent to others is short and plain.
fn is_name(text: &str) -> bool {
    const MOST_BYTES: usize = 128;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_".contains(&byte);
    !text.is_empty() && text.len() <= MOST_BYTES && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(environment: &[(&'static str, &'static str)], ancestors: &[&str]) -> Option<String> {
        let own = NamesInEnvironment::of(&environment.iter().copied().collect());
        of_rank(&own, ancestors.iter().copied())
    }

    #[test]
    fn ranks_and_daemons_of_a_launcher_have_the_same_name() {
        let orted = "orted -mca ess env -mca ess_base_jobid 520814592 -mca ess_base_vpid 1";
        assert_eq!(of_daemon(orted).as_deref(), Some("520814592"));
        assert_eq!(name(&[("PMIX_NAMESPACE", "520814593")], &[]).as_deref(), Some("520814592"));
        let prted = "prted --prtemca ess_base_nspace \"prterun-node1-77@0\" --prtemca ess_base_vpid 1";
        assert_eq!(of_daemon(prted).as_deref(), Some("prterun-node1-77"));
        assert_eq!(
            name(&[("PMIX_NAMESPACE", "prterun-node1-77@1")], &[]).as_deref(),
            Some("prterun-node1-77")
        );
        let proxy = "/usr/bin/hydra_pmi_proxy --control-port 10.99.1.254:41007 --rmk user --proxy-id 1";
        assert_eq!(name(&[("PMI_RANK", "1")], &["sh", proxy]).as_deref(), Some("10.99.1.254:41007"));
    }

    #[test]
    fn a_launcher_within_a_batch_job_is_named_before_that() {
        let batch = [("SLURM_JOB_ID", "12"), ("SLURM_STEP_ID", "0")];
        assert_eq!(name(&batch, &[]).as_deref(), Some("12.0"));
        assert_eq!(name(&batch[..1], &[]).as_deref(), Some("12"));
        let proxy = "hydra_pmi_proxy --control-port node1:7";
        assert_eq!(name(&batch, &[proxy]).as_deref(), Some("node1:7"));
        let with_pmix = [batch[0], batch[1], ("PMIX_NAMESPACE", "slurm.pmix.12.0")];
        assert_eq!(name(&with_pmix, &[]).as_deref(), Some("12.0"));
    }

    #[test]
    fn what_the_scheduler_calls_it_is_known_beside_the_name_of_its_launcher() {
        let allocation = |environment: &[(&'static str, &'static str)]| {
            let own = NamesInEnvironment::of(&environment.iter().copied().collect());
            own.allocation().map(str::to_owned)
        };
        let pmix = ("PMIX_NAMESPACE", "520814593");
        assert_eq!(allocation(&[("SLURM_JOB_ID", "12"), pmix]).as_deref(), Some("12"));
        assert_eq!((allocation(&[pmix]), allocation(&[("SLURM_JOB_ID", "1 2")])), (None, None));
    }

    #[test]
    fn what_is_no_plain_name_names_nothing() {
        assert_eq!(name(&[], &["mpirun -n 2 ./app"]), None);
        for odd in ["a b", "a\u{1b}[31m", "x*", ">", ""] {
            let odd: &'static str = odd;
            assert_eq!(name(&[("PMIX_NAMESPACE", odd)], &[]), None, "{odd:?}");
        }
        assert_eq!(of_daemon("proxy --control-port"), None);
    }
}
