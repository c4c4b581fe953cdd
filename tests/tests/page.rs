//! Pages, as a browser shows them: what is drawn, what can be done with it, and that nothing of a job's gets out of hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analyzer::page::{EventKind, HangRole, Page};
use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;
use live::made_up::{MadeUpJob, MadeUpNames};
use live::timed::TimedJob;
use live::{Browser, Dmscope, JobSpec, MpiImplementation};
use serde_json::json;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A page that `dmscope report` wrote about the tape of a made-up job.
struct WrittenPage {
    _folder: TempDir,
    html: PathBuf,
    json: PathBuf,
}

impl WrittenPage {
    fn about(job: &MadeUpJob) -> Result<Self> {
        let folder = TempDir::new()?;
        let path = |name: &str| folder.path().join(name);
        job.record(&path("job.dmt"))?;
        let (html, json) = (path("report.html"), path("report.json"));
        let report = Dmscope::command("report", [path("job.dmt")]);
        let files = ["-o".as_ref(), html.as_os_str(), "--json".as_ref(), json.as_os_str()];
        let session = report.args(files).finish()?;
        let wanted = if job.cycle.is_empty() { 0 } else { 1 };
        ensure!(session.status == Some(wanted), "status {:?}: {:?}", session.status, session.stderr);
        Ok(Self { _folder: folder, html, json })
    }

    fn data(&self) -> Result<Page> {
        Ok(serde_json::from_str(&fs::read_to_string(&self.json)?)?)
    }

    fn open(&self) -> Result<Browser> {
        let browser = Browser::start(false)?;
        browser.open(&self.html)?;
        Ok(browser)
    }
}

/// Names of the rows that are in view, in order.
fn rows(browser: &Browser) -> Result<Vec<String>> {
    let names = browser.run(
        "return [...document.querySelectorAll('#names button')].map(b => b.getAttribute('aria-label'))",
    )?;
    Ok(serde_json::from_value(names)?)
}

fn shown(browser: &Browser) -> Result<String> {
    browser.text("return document.getElementById('shown').textContent")
}

/// Pixels of the timeline that have the colour of a style's variable.
fn pixels(browser: &Browser, variable: &str) -> Result<f64> {
    browser.number(&format!(
        "const probe = document.createElement('canvas').getContext('2d');
         probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('{variable}').trim();
         probe.fillRect(0, 0, 1, 1);
         const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
         const canvas = document.getElementById('canvas');
         const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
         let count = 0;
         for (let i = 0; i < all.length; i += 4) if (all[i] === r && all[i + 1] === g && all[i + 2] === b) count++;
         return count;"
    ))
}

/// How many bounds of times without watching are on the timeline.
fn bounds_drawn(browser: &Browser) -> Result<f64> {
    browser.number("return Number(document.getElementById('canvas').dataset.bounds)")
}

/// Lets the page draw what has changed.
fn settle(browser: &Browser) -> Result<()> {
    browser.run("window.drawnAgain = false; requestAnimationFrame(() => requestAnimationFrame(() => { window.drawnAgain = true; }))")?;
    browser.wait_for("return window.drawnAgain === true")
}

/// Presses the mouse on the timeline: so many rows down, and at a part of its width.
fn press_row(browser: &Browser, row: u32, part: f64) -> Result<()> {
    browser.run("document.getElementById('canvas').scrollIntoView({ block: 'center' })")?;
    let of = |what: &str| {
        browser.number(&format!("return document.getElementById('canvas').getBoundingClientRect().{what}"))
    };
    let (left, top, width) = (of("left")?, of("top")?, of("width")?);
    browser.press_at((left + width * part) as i64, (top + 30.0 + 26.0 * (f64::from(row) + 0.5)) as i64)?;
    settle(browser)
}

#[test]
fn a_page_tells_the_verdict_and_draws_a_row_for_each_rank() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    let browser = page.open()?;
    let head = browser.text("return document.querySelector('header').innerText")?;
    for words in [
        "Deadlock",
        "anks 0-1 wait for each other",
        "MPI_Recv(count 64, source 1, tag 7",
        "exchange (solver.c:11)",
        "At fault: ranks 0-1",
        "Affected: ranks 2-3",
    ] {
        ensure!(head.contains(words), "no {words:?} in {head}");
    }
    let wanted = ["Rank 0, at fault", "Rank 1, at fault", "Rank 2, only waits", "Rank 3, only waits"];
    ensure!(rows(&browser)? == wanted, "{:?}", rows(&browser)?);
    ensure!(shown(&browser)?.starts_with("8 of 28 events shown"), "{}", shown(&browser)?);
    // A bar is at least a third of the width, and most of its row's height.
    for (variable, least) in [("--fault", 2.0 * 2500.0), ("--affected-bg", 2.0 * 2000.0), ("--receive", 20.0)]
    {
        let count = pixels(&browser, variable)?;
        ensure!(count > least, "{count} pixels of {variable}");
    }
    let nodes = browser.number("return document.querySelectorAll('#graph .node').length")?;
    let edges = browser.number("return document.querySelectorAll('#graph .edge').length")?;
    ensure!((nodes, edges) == (3.0, 4.0), "{nodes} nodes, {edges} edges");
    let table = browser.text("return document.querySelector('#waits table').innerText")?;
    ensure!(table.contains("ranks 2-3") && table.contains("in MPI_Barrier(comm MPI_COMM_WORLD)"), "{table}");
    browser.end()
}

#[test]
fn a_click_on_an_event_tells_routine_arguments_line_and_reason() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    let browser = page.open()?;
    press_row(&browser, 1, 0.9)?;
    let details = browser.text("return document.getElementById('details').innerText")?;
    for words in [
        "Rank 1: in MPI_Recv",
        "At fault: deadlock (ranks 0-1).",
        "source\n0",
        "tag\n7",
        "MPI_COMM_WORLD",
        "exchange (solver.c:11)",
        "/home/user/solver.c:11",
        "not over at the end",
        "waits for\nRank 0",
    ] {
        ensure!(details.contains(words), "no {words:?} in {details}");
    }
    // Beside the axis there is nothing to choose.
    press_row(&browser, 3, 0.4)?;
    ensure!(
        browser.run("return document.getElementById('details').hidden")? == json!(true),
        "something is chosen"
    );
    browser.end()
}

#[test]
fn ranks_are_isolated_related_ones_added_and_all_brought_back() -> Result<()> {
    let job = MadeUpJob { cycle: vec![2, 5, 3], ..MadeUpJob::deadlock(8) };
    let page = WrittenPage::about(&job)?;
    let browser = page.open()?;
    ensure!(
        browser.run("return document.getElementById('isolate').disabled")? == json!(true),
        "nothing to isolate"
    );
    browser.press("#names button[data-row='5']")?;
    browser.press("#isolate")?;
    settle(&browser)?;
    ensure!(rows(&browser)? == ["Rank 5, at fault"], "{:?}", rows(&browser)?);
    // It waits for 3; 2 waits for it, and those in the barrier wait for all that are not there.
    browser.press("#related")?;
    settle(&browser)?;
    ensure!(rows(&browser)?.len() == 8, "{:?}", rows(&browser)?);
    browser.press("#isolate-fault")?;
    settle(&browser)?;
    let wanted = ["Rank 2, at fault", "Rank 3, at fault", "Rank 5, at fault"];
    ensure!(rows(&browser)? == wanted, "{:?}", rows(&browser)?);
    browser.press("input[value=all]")?;
    settle(&browser)?;
    ensure!(shown(&browser)?.starts_with("21 of 56 events shown, of 3 of 8"), "{}", shown(&browser)?);
    browser.press("#reset")?;
    settle(&browser)?;
    ensure!(shown(&browser)?.starts_with("16 of 56 events shown, of 8 of 8"), "{}", shown(&browser)?);
    browser.end()
}

#[test]
fn the_timeline_can_be_walked_with_keys_alone() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    let browser = page.open()?;
    let chosen = |browser: &Browser| browser.text("return document.querySelector('#details h3').innerText");
    ensure!(chosen(&browser)?.starts_with("Rank 0: in MPI_Recv"), "{}", chosen(&browser)?);
    for (key, wanted) in [
        (Key::Down, "Rank 1: in MPI_Recv"),
        (Key::Down, "Rank 2: in MPI_Barrier"),
        (Key::Left, "Rank 2: MPI_Recv"),
        (Key::End, "Rank 2: in MPI_Barrier"),
        (Key::Home, "Rank 2: MPI_Recv"),
    ] {
        browser.keys("#canvas", &[key])?;
        ensure!(chosen(&browser)?.starts_with(wanted), "{} instead of {wanted}", chosen(&browser)?);
    }
    let told = browser.text("return document.getElementById('announcer').textContent")?;
    ensure!(told.contains("Rank 2, MPI_Recv, count 64, source 3"), "{told}");
    browser.keys("#canvas", &[Key::Space])?;
    settle(&browser)?;
    let pressed = browser.text("return document.querySelector('#names [aria-pressed=true]').dataset.row")?;
    ensure!(pressed == "2", "row {pressed} is selected");
    browser.end()
}

#[test]
fn all_64_ranks_and_10_000_events_are_painted_within_two_seconds() -> Result<()> {
    let job = MadeUpJob { calls: 160, cycle: vec![48, 40, 44, 56, 52], ..MadeUpJob::deadlock(64) };
    let page = WrittenPage::about(&job)?;
    let browser = page.open()?;
    ensure!(shown(&browser)?.contains(" of 10,304 events shown, of 64 of 64"), "{}", shown(&browser)?);
    let paint =
        browser.number("return performance.getEntriesByName('first-contentful-paint')[0].startTime")?;
    let drawn = browser.number("return performance.getEntriesByName('drawn')[0].startTime")?;
    browser.press("input[value=all]")?;
    settle(&browser)?;
    eprintln!("first paint after {paint:.0} ms, timeline drawn after {drawn:.0} ms");
    ensure!(paint < 2000.0 && drawn < 2000.0, "first paint after {paint} ms, timeline after {drawn} ms");
    ensure!(pixels(&browser, "--collective")? > 500.0, "not everything is drawn");
    let nodes = browser.number("return document.querySelectorAll('#graph .node').length")?;
    ensure!(nodes == 6.0, "{nodes} nodes instead of five ranks and all others together");
    browser.end()
}

#[test]
fn a_page_asks_for_nothing_and_runs_no_script_but_its_own() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    let browser = page.open()?;
    let requests = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")?;
    ensure!(requests == json!([]), "requests: {requests}");
    let policy =
        browser.text("return document.querySelector('meta[http-equiv=Content-Security-Policy]').content")?;
    ensure!(
        policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
    browser.run(
        "window.refused = [];
         document.addEventListener('securitypolicyviolation', event => window.refused.push(event.effectiveDirective));
         const script = document.createElement('script');
         script.textContent = 'window.intruder = true';
         document.body.append(script);
         const image = document.createElement('img');
         image.src = 'http://127.0.0.1:9/x.png';
         document.body.append(image);",
    )?;
    browser.wait_for("return window.refused.length >= 2")?;
    let intruder = browser.run("return window.intruder === undefined")?;
    ensure!(intruder == json!(true), "a foreign script ran");
    browser.end()
}

#[test]
fn whatever_a_job_calls_things_is_only_text() -> Result<()> {
    let hostile = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'{{data}}&amp;\u{202e}";
    let names = MadeUpNames {
        job: format!("mpirun {hostile}"),
        host: hostile.into(),
        program: format!("/tmp/{hostile}"),
        function: hostile.into(),
        source: format!("/tmp/{hostile}.c"),
        receive: "MPI_Recv".into(),
    };
    let page = WrittenPage::about(&MadeUpJob { names, ..MadeUpJob::deadlock(3) })?;
    let browser = page.open()?;
    press_row(&browser, 1, 0.9)?;
    browser.press("#table summary")?;
    browser.wait_for("return document.querySelectorAll('#table tbody tr').length === 6")?;
    ensure!(browser.run("return window.hacked === undefined")? == json!(true), "a name was run");
    let strangers = browser.number(
        "return document.querySelectorAll('img, iframe, script:not(#data):not([type=module])').length",
    )?;
    ensure!(strangers == 0.0, "{strangers} elements came from names");
    let shown = hostile.replace('\u{202e}', "\\u{202e}");
    for place in ["header", "#details", "#waits table", "#table", "footer"] {
        let text = browser.text(&format!("return document.querySelector('{place}').textContent"))?;
        ensure!(place == "footer" || text.contains(&shown), "not as it is in {place}: {text}");
        ensure!(!text.contains('\u{202e}'), "writing is turned round in {place}");
    }
    let title = browser.text("return document.title")?;
    ensure!(title.contains(&shown), "{title}");
    browser.end()
}

#[test]
fn an_mpi_function_with_a_hostile_name_is_only_text() -> Result<()> {
    let names = MadeUpNames { receive: "MPI_<svg/onload=window.hacked=1>".into(), ..MadeUpNames::default() };
    let folder = TempDir::new()?;
    let (tape, html) = (folder.path().join("job.dmt"), folder.path().join("report.html"));
    MadeUpJob { names, ..MadeUpJob::deadlock(3) }.record(&tape)?;
    Dmscope::command("report", [tape]).args(["-o".as_ref(), html.as_os_str()]).finish()?;
    let browser = Browser::start(false)?;
    browser.open(&html)?;
    browser.press("input[value=all]")?;
    browser.keys("#canvas", &[Key::Home])?;
    let text = browser.text("return document.body.innerText")?;
    ensure!(text.contains("MPI_<svg/onload=window.hacked=1>"), "{text}");
    ensure!(browser.run("return window.hacked === undefined")? == json!(true), "a name was run");
    browser.end()
}

#[test]
fn a_job_without_a_fault_is_told_to_be_fine_with_all_its_events() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::healthy(4))?;
    let browser = page.open()?;
    let head = browser.text("return document.querySelector('header').innerText")?;
    ensure!(
        head.contains("No fault found")
            && head.contains("Ranks 0-3 were watched")
            && head.contains("24 MPI calls"),
        "{head}"
    );
    ensure!(shown(&browser)?.starts_with("28 of 28 events shown"), "{}", shown(&browser)?);
    ensure!(browser.run("return document.getElementById('waits').hidden")? == json!(true), "nobody waits");
    browser.end()
}

#[test]
fn dark_pages_are_dark_and_light_ones_light() -> Result<()> {
    let page = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    for dark in [false, true] {
        let browser = Browser::start(dark)?;
        browser.open(&page.html)?;
        let colour = browser.text("return getComputedStyle(document.documentElement).backgroundColor")?;
        ensure!(dark != (colour == "rgb(255, 255, 255)"), "dark {dark}: {colour}");
        ensure!(
            pixels(&browser, "--bg")? > 10_000.0,
            "dark {dark}: the timeline is not in the page's colours"
        );
        browser.end()?;
    }
    Ok(())
}

/// Where the ends of calls and the messages between them are known, they are shown.
#[test]
fn ends_of_calls_and_messages_are_drawn_where_they_are_known() -> Result<()> {
    let written = WrittenPage::about(&MadeUpJob::deadlock(2))?;
    let mut page = written.data()?;
    let of_row = |row: u32| page.timeline.rows[row as usize].first_event as usize;
    let (sent, received) = (of_row(0), of_row(1) + 1);
    let end_ns = page.timeline.events[received].begin_ns + 30_000;
    page.timeline.events[sent].sent_to = vec![received as u32];
    page.timeline.events[received].got_from = vec![sent as u32];
    page.timeline.events[received].end_ns = Some(end_ns);
    let html = written.html.with_file_name("linked.html");
    fs::write(&html, dmscope::page::html(&page)?)?;
    let browser = Browser::start(false)?;
    browser.open(&html)?;
    browser.press("input[value=all]")?;
    browser.press("#isolate-fault")?;
    settle(&browser)?;
    let with = pixels(&browser, "--muted")?;
    browser.keys("#canvas", &[Key::Home])?;
    browser.press("#details .jump")?;
    let details = browser.text("return document.getElementById('details').innerText")?;
    ensure!(
        details.contains("Rank 1: MPI_Recv")
            && details.contains("took\n30 µs")
            && details.contains("Rank 0: MPI_Send"),
        "{details}"
    );
    browser.open(&written.html)?;
    browser.press("input[value=all]")?;
    browser.press("#isolate-fault")?;
    settle(&browser)?;
    let without = pixels(&browser, "--muted")?;
    ensure!(with > without + 30.0, "no arrow: {with} and {without} pixels");
    browser.end()
}

#[test]
fn the_words_are_there_without_scripts() -> Result<()> {
    let html = fs::read_to_string(WrittenPage::about(&MadeUpJob::deadlock(4))?.html)?;
    let words = html.split("<script").next().context("a page")?;
    for wanted in [
        "<h1>Deadlock</h1>",
        "source 1, tag 7",
        "exchange (solver.c:11)",
        "✖ at fault",
        "ranks 2-3",
        "What this rests on",
    ] {
        ensure!(words.contains(wanted), "no {wanted:?} in the words");
    }
    Ok(())
}

#[test]
fn the_json_is_that_of_the_page_and_says_what_the_page_says() -> Result<()> {
    let written = WrittenPage::about(&MadeUpJob::deadlock(4))?;
    let page = written.data()?;
    let html = fs::read_to_string(&written.html)?;
    let embedded = html.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let embedded: Page = serde_json::from_str(embedded.context("no data in the page")?.0)?;
    ensure!(embedded == page, "another page");
    let lasts: Vec<_> = page.timeline.events.iter().filter(|event| event.is_last).collect();
    ensure!(
        lasts.len() == 4 && lasts.iter().all(|event| event.kind == EventKind::InCall && !event.began_earlier)
    );
    ensure!(lasts[0].role == Some(HangRole::AtFault) && page.timeline.rows[0].waits_for == [1]);
    Ok(())
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_is_read() -> Result<()> {
    let folder = TempDir::new()?;
    let tape = folder.path().join("job.dmt");
    MadeUpJob::deadlock(2).record(&tape)?;
    let report = |arguments: &[&str]| {
        Dmscope::command("report", [tape.as_path()]).args(arguments.iter().copied()).finish()
    };
    report(&["-o", "/nonexistent/x.html"])?.check_refusal(&["/nonexistent/x.html"])?;
    report(&["--json", "/nonexistent/x.json", "-o", "/dev/null"])?.check_refusal(&["/nonexistent/x.json"])?;
    let missing =
        Dmscope::command("report", [Path::new("missing.dmt")]).args(["-o", "/dev/null"]).finish()?;
    missing.check_refusal(&["missing.dmt"])
}

/// A job that hangs is watched until that is sure; the page is written, and the job is left as it was.
#[test]
fn a_running_job_that_hangs_gets_a_page_and_goes_on_hanging() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "errors")?
        .ranks(3)
        .args(["--fault", "barrier_or_bcast"])
        .held();
    let job = job.spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let folder = TempDir::new()?;
    let (html, json) = (folder.path().join("hang.html"), folder.path().join("hang.json"));
    let report = Dmscope::command("report", [job.launcher_pid().to_string()]);
    let files = ["--budget", "none", "-o"].map(std::ffi::OsStr::new).into_iter();
    let files = files.chain([html.as_os_str(), "--json".as_ref(), json.as_os_str()]);
    let dmscope = report.args(files).spawn()?;
    dmscope.wait_for_line("probes in")?;
    job.go()?;
    let session = dmscope.finish()?;
    ensure!(session.status == Some(1), "status {:?}: {:?}", session.status, session.stderr);
    for pid in job.rank_pids()? {
        ensure!(live::processes::is_alive(pid), "rank process {pid} is gone");
    }
    let page: Page = serde_json::from_str(&fs::read_to_string(&json)?)?;
    ensure!(page.verdict.title == "Collective mismatch on MPI_COMM_WORLD", "{:?}", page.verdict);
    let lasts: Vec<_> = page.timeline.events.iter().filter(|event| event.is_last).collect();
    ensure!(lasts.len() == 3 && lasts.iter().all(|event| !event.began_earlier), "{lasts:?}");
    let called_at = lasts[1].place.map(|at| page.timeline.places[at as usize].text.as_str());
    ensure!(
        called_at.is_some_and(|text| text.starts_with("barrier_or_bcast (errors_collectives.c:")),
        "{called_at:?}"
    );
    let before = page.timeline.events.iter().filter(|event| event.is_before_last).count();
    ensure!(before == 3, "{before} events before the last ones");
    ensure!(fs::read_to_string(&html)?.contains("<h1>Collective mismatch on MPI_COMM_WORLD</h1>"));
    Ok(())
}

/// Of the radio buttons of one name, which is chosen.
fn chosen(browser: &Browser, name: &str) -> Result<String> {
    browser.text(&format!("return document.querySelector('[name={name}]:checked').value"))
}

#[test]
fn a_page_of_a_tape_shows_times_without_watching_with_their_bounds_and_those_measured() -> Result<()> {
    let folder = TempDir::new()?;
    let (html, json) = (folder.path().join("page.html"), folder.path().join("page.json"));
    let page_of_a_run = || -> Result<Page> {
        TimedJob::new(MpiImplementation::Mpich, "master", 3, 40, 20_000)?.record(folder.path())?;
        let report = Dmscope::command("report", [folder.path().join("timed.dmt")]);
        let files =
            ["--corrected".as_ref(), "-o".as_ref(), html.as_os_str(), "--json".as_ref(), json.as_os_str()];
        let session = report.args(files).finish()?;
        ensure!(session.status == Some(0), "status {:?}: {:?}", session.status, session.stderr);
        Ok(serde_json::from_str(&fs::read_to_string(&json)?)?)
    };
    let times_earlier = |page: &Page| -> Vec<f64> {
        let calls = page.timeline.events.iter().filter(|event| event.kind == EventKind::Call);
        calls.filter_map(|event| Some(event.begin_ns as f64 - event.corrected?.begin.likely_ns)).collect()
    };
    // Of a run in which watching took longer than the job, as it may beside others, there are no times without watching.
    let mut page = page_of_a_run()?;
    for _ in 0..4 {
        if !times_earlier(&page).is_empty() {
            break;
        }
        fs::remove_file(&html)?;
        page = page_of_a_run()?;
    }
    let calls = || page.timeline.events.iter().filter(|event| event.kind == EventKind::Call);
    let earlier = times_earlier(&page);
    // Of a rank that is not known from its first call on there are none.
    ensure!(earlier.len() > 100, "{} of {}", earlier.len(), calls().count());
    ensure!(earlier.iter().any(|ns| *ns > 10_000.0), "nothing is earlier");
    ensure!(page.basis.iter().any(|line| line.contains("without watching")), "{:?}", page.basis);

    let browser = Browser::start(false)?;
    browser.open(&html)?;
    ensure!(chosen(&browser, "times")? == "corrected", "{}", chosen(&browser, "times")?);
    // Of a run in which they are narrow they are seen from nearer only.
    for _ in 0..20 {
        if bounds_drawn(&browser)? > 0.0 {
            break;
        }
        browser.run("document.getElementById('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }))")?;
        settle(&browser)?;
    }
    let bounds = bounds_drawn(&browser)?;
    ensure!(bounds > 0.0, "no bounds are drawn");
    browser.press("[name=times][value=measured]")?;
    settle(&browser)?;
    ensure!(chosen(&browser, "times")? == "measured", "{}", chosen(&browser, "times")?);
    let measured = bounds_drawn(&browser)?;
    ensure!(measured == 0.0, "{measured} bounds of measured times, {bounds} before");
    browser.end()
}
