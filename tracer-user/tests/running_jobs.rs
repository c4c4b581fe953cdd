//! The planner on real jobs: needs the MPI libraries, and root to look at them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use dmscope::host::launched::{LibraryPaths, gather_program};
use dmscope::host::parsing::InProcess;
use dmscope::host::{JobError, NodeJob, find_jobs, gather, job_of};
use dmscope::plan::{EarlierPlans, PlanOptions};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The launcher may take so long to end its ranks before they are killed.
const GRACE: Duration = Duration::from_secs(3);

/// Waits in a barrier until it is killed; copies once before.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char buffer[4096], *word = argv[0];
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memcpy(buffer, word, strlen(word));
    if (rank == 0) { printf("ready %c\n", buffer[0]); fflush(stdout); }
    MPI_Recv(buffer, 1, MPI_CHAR, rank, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
"#;

/// A job that ends when it is dropped.
struct RunningJob {
    launcher: Child,
    program: PathBuf,
    _folder: TempDir,
}

impl RunningJob {
    fn start(compiler: &str, launcher: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let (source, program) = (folder.path().join("waits.c"), folder.path().join("waits"));
        std::fs::write(&source, PROGRAM).unwrap();
        let built =
            Command::new(compiler).args(["-O1", "-o"]).args([&program, &source]).status().expect(compiler);
        assert!(built.success());
        let mut child = Command::new(launcher[0])
            .args(&launcher[1..])
            .args(["-n", "2"])
            .arg(&program)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(launcher[0]);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line:?}");
        Self { launcher: child, program, _folder: folder }
    }

    fn openmpi() -> Self {
        Self::start(
            "mpicc.openmpi",
            &[
                "mpirun.openmpi",
                "--allow-run-as-root",
                "--oversubscribe",
                "--mca",
                "oob_tcp_if_include",
                "lo",
            ],
        )
    }

    fn mpich() -> Self {
        Self::start("mpicc.mpich", &["mpirun.mpich"])
    }

    fn job(&self) -> NodeJob {
        job_of(self.launcher.id()).unwrap()
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let ranks = job_of(self.launcher.id()).map(|job| job.ranks).unwrap_or_default();
        let all: Vec<u32> = ranks.iter().map(|rank| rank.pid).chain([self.launcher.id()]).collect();
        all.iter().for_each(|pid| end(*pid, Signal::TERM));
        let deadline = Instant::now() + GRACE;
        while matches!(self.launcher.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if matches!(self.launcher.try_wait(), Ok(None)) {
            all.iter().for_each(|pid| end(*pid, Signal::KILL));
            let _ = self.launcher.wait();
        }
    }
}

fn end(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).unwrap();
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}

fn planned(job: &NodeJob) -> Plan {
    gather(job, &mut InProcess)
        .unwrap()
        .plan(&PlanOptions::default(), &EarlierPlans::default(), &mut InProcess)
        .unwrap()
        .plan
}

fn of_file<'p>(plan: &'p Plan, name: &str) -> Vec<&'p Probe> {
    let file = plan.files.iter().find(|f| f.path.rsplit('/').next().is_some_and(|n| n.starts_with(name)));
    let id = file.unwrap_or_else(|| panic!("{name} is not among the files")).id;
    plan.probes.iter().filter(|p| p.file == id).collect()
}

fn count(probes: &[&Probe], class: ProbeClass) -> usize {
    probes.iter().filter(|p| p.class == class).count()
}

fn named<'p>(plan: &'p Plan, function: &str) -> &'p Probe {
    plan.probes.iter().find(|p| p.function == function).unwrap_or_else(|| panic!("no probe for {function}"))
}

/// What must hold of the plan of any job.
fn check(plan: &Plan) {
    // What is hit only when a call fails, or when queue pairs are set up, may be dear.
    let is_hit = |p: &&Probe| !matches!(p.class, ProbeClass::Error | ProbeClass::VerbsQueue);
    let dear: Vec<&Probe> =
        plan.probes.iter().filter(is_hit).filter(|p| p.place == ProbePlace::SingleStep).collect();
    assert!(dear.is_empty(), "{dear:#?}");
    let returns = |p: &&Probe| matches!(p.class, ProbeClass::Alloc | ProbeClass::PollReturn);
    assert!(plan.probes.iter().filter(returns).all(|p| p.stack_bytes == 0));
    let send = named(plan, "MPI_Send");
    assert_eq!((send.place, send.offset_bytes), (ProbePlace::Push, send.site_offset_bytes));
    for function in ["malloc", "calloc", "realloc", "posix_memalign", "free"] {
        named(plan, function);
    }
    assert_eq!(count(&of_file(plan, "waits"), ProbeClass::Copy), 1);
    let is_call = |p: &&Probe| matches!(p.class, ProbeClass::Call | ProbeClass::CallResults);
    let calls = plan.probes.iter().filter(is_call).count();
    assert!(calls > 200, "{calls} calls");
}

#[test]
#[ignore = "needs Open MPI and root"]
fn the_plan_of_an_open_mpi_job_covers_its_data_path_cheaply() {
    let running = RunningJob::openmpi();
    let plan = planned(&running.job());
    check(&plan);
    assert_eq!(count(&of_file(&plan, "mca_btl_vader"), ProbeClass::Copy), 26);
    assert_eq!(count(&of_file(&plan, "mca_pml_ob1"), ProbeClass::Copy), 8);
    let base = of_file(&plan, "libopen-pal");
    assert!(count(&base, ProbeClass::Copy) > 50);
    assert!(count(&base, ProbeClass::Pack) >= 2 && count(&base, ProbeClass::Unpack) >= 1);
    let offsets: Vec<u64> = base.iter().filter(|p| p.class == ProbeClass::Pack).map(|p| p.argument).collect();
    assert!(offsets.iter().all(|o| *o > 0 && *o == offsets[0]));
    for function in ["MPI_Test", "MPI_Testany", "MPI_Testall", "MPI_Iprobe", "MPI_Improbe"] {
        assert_eq!(named(&plan, function).class, ProbeClass::PollSuccess, "{function}");
    }
    assert_eq!(named(&plan, "MPI_Testsome").class, ProbeClass::PollReturn);
}

#[test]
#[ignore = "needs MPICH and root"]
fn the_plan_of_an_mpich_job_covers_its_data_path_cheaply() {
    let running = RunningJob::mpich();
    let plan = planned(&running.job());
    check(&plan);
    assert!(count(&of_file(&plan, "libmpich"), ProbeClass::Copy) > 150);
    assert!(count(&of_file(&plan, "libucp"), ProbeClass::Copy) > 50);
    for function in ["MPI_Test", "MPI_Testany", "MPI_Testall", "MPI_Testsome", "MPI_Iprobe"] {
        let class = named(&plan, function).class;
        assert!(matches!(class, ProbeClass::PollSuccess | ProbeClass::PollReturn), "{function}");
    }
    assert!(plan.left_out.iter().any(|l| l.what.contains("packing")));
}

#[test]
#[ignore = "needs Open MPI and root"]
fn a_job_is_found_by_its_launcher_and_by_each_rank() {
    let running = RunningJob::openmpi();
    let job = running.job();
    assert_eq!(job.pid, running.launcher.id());
    assert_eq!(
        job.ranks.iter().map(|r| (r.rank, r.size)).collect::<Vec<_>>(),
        [(Some(0), Some(2)), (Some(1), Some(2))]
    );
    assert_eq!(job.library().unwrap().kind, "Open MPI");
    for rank in &job.ranks {
        assert_eq!(job_of(rank.pid).unwrap().pid, job.pid);
        assert_eq!(Path::new(&rank.exe), running.program);
    }
    assert!(find_jobs().iter().any(|j| j.pid == job.pid));
}

#[test]
#[ignore = "needs Open MPI and root"]
fn a_program_that_does_not_run_yet_has_the_plan_of_the_running_one() {
    let running = RunningJob::openmpi();
    let live = planned(&running.job());
    let gathered =
        gather_program(&running.program, &LibraryPaths::of_this_machine(), &mut InProcess).unwrap();
    let before =
        gathered.plan(&PlanOptions::default(), &EarlierPlans::default(), &mut InProcess).unwrap().plan;
    // Which plugin answers a polling call is known only when the job runs.
    let polls = |p: &&Probe| matches!(p.class, ProbeClass::PollSuccess | ProbeClass::PollReturn);
    let places = |plan: &Plan| -> Vec<_> {
        plan.probes.iter().filter(|p| !polls(p)).map(|p| (p.file, p.offset_bytes, p.class)).collect()
    };
    let before = places(&before);
    let missing: Vec<_> = places(&live).into_iter().filter(|p| !before.contains(p)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
#[ignore = "needs Open MPI and root"]
fn a_plan_is_ready_fast_enough_to_attach_within_a_second() {
    let running = RunningJob::openmpi();
    let job = running.job();
    let started = Instant::now();
    planned(&job);
    // Ten times what an optimised build takes on a quiet machine.
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn what_is_no_mpi_process_is_said_to_be_what_it_is() {
    let mut child = Command::new("sleep").arg("30").spawn().unwrap();
    let error = job_of(child.id()).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(&error, JobError::NotMpi { what, .. } if what.contains("sleep")), "{error}");
    assert_eq!(job_of(child.id()).unwrap_err(), JobError::NoSuchProcess(child.id()));
    assert_eq!(job_of(u32::MAX).unwrap_err(), JobError::NoSuchProcess(u32::MAX));
}

#[test]
#[ignore = "needs root"]
fn a_deleted_program_is_read_from_its_mapping() {
    use dmscope::host::files::open_mapped;
    use dmscope::host::gather::read_maps;
    use dmscope::host::mappings::code_files;

    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sleeps");
    std::fs::copy("/bin/sleep", &path).unwrap();
    let mut child = Command::new(&path).arg("30").spawn().unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Another file under the same name must not be taken for it.
    std::fs::write(&path, "something else").unwrap();
    // The program is mapped a moment after it was started.
    let mapped =
        || code_files(&read_maps(child.id()).unwrap()).into_iter().find(|f| Path::new(&f.path) == path);
    let file = std::iter::repeat_with(mapped).flatten().next().unwrap();
    let opened = open_mapped(child.id(), &file).unwrap();
    let image = opened.read_image().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(opened.replaced && file.deleted);
    assert_eq!(
        dmscope::elf::parse(&image).unwrap().build_id,
        dmscope::elf::parse(&whole.into()).unwrap().build_id
    );
}
