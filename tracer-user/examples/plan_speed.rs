//! How long the plan of a running job takes: `plan_speed PID [ROUNDS]`. The best round counts;
//! the others show what else the machine was doing.

use std::time::{Duration, Instant};

use dmscope::host::parsing::InProcess;
use dmscope::host::{gather, job_of};
use dmscope::plan::{EarlierPlans, PlanOptions};

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let pid: u32 = words.next().ok_or_else(|| anyhow::anyhow!("usage: plan_speed PID [ROUNDS]"))?.parse()?;
    let rounds: u32 = words.next().map_or(Ok(5), |w| w.parse())?;
    let mut best = [Duration::MAX; 3];
    let mut probes = 0;
    for _ in 0..rounds {
        let begin = Instant::now();
        let job = job_of(pid)?;
        let found = begin.elapsed();
        let gathered = gather(&job, &mut InProcess)?;
        let read = begin.elapsed();
        let made = gathered
            .plan(&PlanOptions::default(), &EarlierPlans::default(), &mut InProcess)
            .map_err(anyhow::Error::msg)?;
        probes = made.plan.probes.len();
        let planned = begin.elapsed();
        for (best, time) in best.iter_mut().zip([found, read - found, planned - read]) {
            *best = time.min(*best);
        }
    }
    let [found, read, planned] = best.map(|time| time.as_secs_f64() * 1e3);
    println!("found {found:.1} ms, read {read:.1} ms, planned {planned:.1} ms: {probes} probes");
    Ok(())
}
