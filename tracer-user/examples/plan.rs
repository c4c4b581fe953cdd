//! Prints the plan of a running job, or lists the jobs: `plan [--json] [--all] [--library GLOB]… [PID]`.

use std::collections::BTreeMap;
use std::time::Instant;

use tracer_user::cli::{probes, ps};
use tracer_user::host::{find_jobs, gather, job_of};
use tracer_user::plan::{PlanOptions, plan};

fn main() -> anyhow::Result<()> {
    let (mut json, mut all, mut pid) = (false, false, None);
    let mut options = PlanOptions::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--all" => all = true,
            "--library" => options.libraries.extend(words.next()),
            number => pid = Some(number.parse::<u32>()?),
        }
    }
    let Some(pid) = pid else {
        let jobs = find_jobs();
        print!("{}", if json { format!("{:#}\n", ps::json(&jobs)) } else { ps::text(&jobs) });
        return Ok(());
    };
    let started = Instant::now();
    let job = job_of(pid)?;
    let job_ms = started.elapsed().as_secs_f64() * 1e3;
    let gathered = gather(&job)?;
    let gathered_ms = started.elapsed().as_secs_f64() * 1e3;
    let plan = plan(&gathered.facts, &options, 1)?;
    let planned_ms = started.elapsed().as_secs_f64() * 1e3;
    let hits = BTreeMap::new();
    print!(
        "{}",
        if json { format!("{:#}\n", probes::json(&plan, &hits)) } else { probes::text(&plan, &hits, all) }
    );
    for note in &gathered.notes {
        eprintln!("{note}");
    }
    eprintln!(
        "found the job in {job_ms:.0} ms, read its files in {:.0} ms, planned in {:.0} ms",
        gathered_ms - job_ms,
        planned_ms - gathered_ms
    );
    Ok(())
}
