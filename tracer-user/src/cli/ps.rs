//! `dmscope ps`: the MPI jobs of this machine.

use serde::Serialize;

use super::table::columns;
use crate::cluster::jobs::ClusterJob;
use crate::host::NodeJob;

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct JobsDocument<'a> {
    schema: u32,
    jobs: &'a [NodeJob],
}

/// For programs.
pub fn json(jobs: &[NodeJob]) -> serde_json::Value {
    serde_json::json!(JobsDocument { schema: SCHEMA, jobs })
}

/// Jobs of all nodes, for programs.
pub fn cluster_json(jobs: &[ClusterJob]) -> serde_json::Value {
    serde_json::json!({ "schema": SCHEMA, "jobs": jobs })
}

/// Jobs of all nodes, for people.
pub fn cluster_text(jobs: &[ClusterJob]) -> String {
    if jobs.is_empty() {
        return "No MPI jobs that you may look at are running on nodes with an agent.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = jobs.iter().map(cluster_row).collect();
    columns(&["JOB", "USER", "MPI", "RANKS", "NODES", "SINCE", "PROGRAM", "COMMAND"], &rows)
}

fn cluster_row(job: &ClusterJob) -> Vec<String> {
    const MOST_NODES: usize = 3;
    let here = job.ranks().count();
    let first = job.ranks().next();
    let hosts = job.parts.iter().take(MOST_NODES);
    let hosts = hosts
        .map(|part| format!("{}({})", part.node.host, part.job.ranks.len()))
        .collect::<Vec<_>>()
        .join(",");
    let more = match job.parts.len().saturating_sub(MOST_NODES) {
        0 => String::new(),
        more => format!(",+{more}"),
    };
    vec![
        job.name.clone(),
        job.user.clone(),
        first.map_or("", |rank| rank.library.kind.as_str()).to_owned(),
        ranks_text(here, job.size.map(|size| size as usize)),
        format!("{hosts}{more}"),
        duration(job.age_s()),
        first.map_or("", |rank| crate::plan::file_name(&rank.exe)).to_owned(),
        shortened(&job.command, 60),
    ]
}

fn ranks_text(here: usize, size: Option<usize>) -> String {
    match size {
        Some(size) if size != here => format!("{here} of {size}"),
        _ => here.to_string(),
    }
}

/// For people.
pub fn text(jobs: &[NodeJob]) -> String {
    if jobs.is_empty() {
        return "No MPI jobs that you may look at are running on this machine.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    columns(&["JOB", "USER", "MPI", "RANKS", "SINCE", "PROGRAM", "COMMAND"], &rows)
}

fn row(job: &NodeJob) -> Vec<String> {
    let first = job.ranks.first();
    let size = first.and_then(|r| r.size).map(|s| s as usize);
    let ranks = ranks_text(job.ranks.len(), size);
    let program = first.map_or("", |r| crate::plan::file_name(&r.exe));
    let library = job.library().map_or("", |l| l.kind.as_str());
    vec![
        job.pid.to_string(),
        job.user.clone(),
        library.to_owned(),
        ranks,
        duration(job.age_s),
        program.to_owned(),
        shortened(&job.command, 60),
    ]
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// `42s`, `3m10s`, `2h05m`, `4d02h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{MpiLibrary, RankProcess};

    fn job() -> NodeJob {
        let rank = RankProcess {
            pid: 11,
            namespace_pid: 11,
            pid_namespace: 1,
            mount_namespace: 1,
            rank: Some(0),
            size: Some(4),
            local_size: None,
            exe: "/opt/stencil".into(),
            command: "/opt/stencil -n 3".into(),
            uid: 0,
            start_ticks: 5,
            library: MpiLibrary {
                kind: "MPICH".into(),
                path: "/lib/libmpich.so.12".into(),
                is_static: false,
            },
        };
        NodeJob {
            pid: 10,
            name: Some("77".into()),
            allocation: None,
            command: "mpirun -n 4 stencil".into(),
            user: "root".into(),
            age_s: 3_725,
            ranks: vec![rank],
        }
    }

    #[test]
    fn a_job_that_is_only_partly_here_says_so() {
        let text = text(&[job()]);
        let line = text.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..6], ["10", "root", "MPICH", "1", "of", "4"]);
        assert_eq!(words[6..], ["1h02m", "stencil", "mpirun", "-n", "4", "stencil"]);
    }

    #[test]
    fn no_jobs_is_said_in_words() {
        assert!(text(&[]).starts_with("No MPI jobs"));
    }

    #[test]
    fn json_has_a_schema_and_all_fields() {
        let json = json(&[job()]);
        assert_eq!(json["schema"], 1);
        assert_eq!(json["jobs"][0]["ranks"][0]["library"]["kind"], "MPICH");
        assert_eq!(json["jobs"][0]["ranks"][0]["pid"], 11);
    }
}
