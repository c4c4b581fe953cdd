//! The words of a page as HTML.

use std::fmt::Write;

use analyzer::clocks::clocks_text;
use analyzer::finding::{Finding, Severity, Verdict};
use analyzer::page::{HangRole, Page, RowGroup, Tone};
use analyzer::render::{self, Style};
use analyzer::text::{duration_text, who_text};

use super::escape::html;

/// For the browser's tab.
pub fn title(page: &Page) -> String {
    format!("{} – {}", page.verdict.title, page.report.session.job)
}

/// What there is to know first.
pub fn verdict(page: &Page) -> String {
    let v = &page.verdict;
    let (class, kicker) = match v.tone {
        Tone::Fault => ("fault", "Fault found"),
        Tone::Suspicion => ("suspicion", "Look at this"),
        Tone::Fine => ("fine", "Nothing found"),
    };
    let mut chips = String::new();
    for (class, what, whos) in [("at_fault", "At fault", &v.at_fault), ("affected", "Affected", &v.affected)]
    {
        if !whos.is_empty() {
            let _ = write!(chips, "<li class=\"chip {class}\">{what}: {}</li>", html(&who_text(whos)));
        }
    }
    let chips = if chips.is_empty() { chips } else { format!("<ul class=\"chips\">{chips}</ul>") };
    format!(
        "<header class=\"{class}\"><div class=\"head\"><p class=\"kicker\">{kicker}</p><h1>{}</h1>\
         <p class=\"summary\">{}</p>{chips}<p class=\"facts\">{}</p></div></header>",
        html(&v.title),
        html(&v.text),
        html(&facts(page))
    )
}

/// Which session it was.
fn facts(page: &Page) -> String {
    let (session, s) = (&page.report.session, &page.report.statistics);
    let how = if session.launched { "watched from its start" } else { "attached to while it ran" };
    let ended = page.report.ended.as_deref().unwrap_or("not over");
    let clocks = clocks_text(session).map_or(String::new(), |text| format!(" {text}"));
    format!(
        "{} on {}, {how}; watched for {} until: {ended}.{clocks}",
        if session.job.is_empty() { "A job" } else { &session.job },
        if session.host.is_empty() { "an unknown node" } else { &session.host },
        duration_text(s.duration_ns)
    )
}

/// Where ranks ended up, as a table.
pub fn groups(page: &Page) -> String {
    let mut out = String::from(
        "<table><thead><tr><th scope=\"col\">Who</th><th scope=\"col\">Role</th>\
         <th scope=\"col\">Where it ended up</th><th scope=\"col\">Waits for</th></tr></thead><tbody>",
    );
    for (number, group) in page.groups.iter().enumerate() {
        let (class, role) = role(group);
        let long = if group.who.len() > 28 { " long" } else { "" };
        let _ = write!(
            out,
            "<tr class=\"{class}\" data-rows=\"{number}\"><td class=\"who{long}\">{}</td><td>{role}</td><td>{}</td><td{}>{}</td></tr>",
            html(&group.who),
            html(&group.doing),
            if group.waits_for_text.len() > 24 { "" } else { " class=\"short\"" },
            html(if group.waits_for_text.is_empty() { "–" } else { &group.waits_for_text })
        );
    }
    out.push_str("</tbody></table>");
    out
}

fn role(group: &RowGroup) -> (&'static str, &'static str) {
    match (group.role, group.at.as_str()) {
        (Some(HangRole::AtFault), _) => ("at_fault", "<span class=\"badge at_fault\">✖ at fault</span>"),
        (Some(HangRole::Affected), "died") => {
            ("affected", "<span class=\"badge affected\">○ ended after it</span>")
        }
        (Some(HangRole::Affected), _) => ("affected", "<span class=\"badge affected\">○ only waits</span>"),
        (None, _) => ("", "–"),
    }
}

/// All findings, each with all that the text report says of it.
pub fn findings(page: &Page) -> String {
    if page.report.findings.is_empty() {
        return String::new();
    }
    let (folded, shown): (Vec<&Finding>, Vec<&Finding>) =
        page.report.findings.iter().partition(|f| f.is_score_alone());
    let mut all: String = shown.into_iter().map(finding).collect();
    if !folded.is_empty() {
        let (count, folded): (usize, String) = (folded.len(), folded.into_iter().map(finding).collect());
        all.push_str(&format!(
            "<details><summary>Rare paths that look odd by score alone: {count}</summary>{folded}</details>"
        ));
    }
    format!(
        "<section aria-labelledby=\"findings-title\"><h2 id=\"findings-title\">All findings</h2>{all}</section>"
    )
}

fn finding(finding: &Finding) -> String {
    let (class, badge) = match (finding.verdict, finding.severity) {
        (Verdict::Inconclusive, _) => ("unsure", "inconclusive"),
        (Verdict::Sampled, Severity::Warning) => ("warning", "warning (sampled)"),
        (Verdict::Sampled, Severity::Notice) => ("notice", "notice (sampled)"),
        (Verdict::Violated, Severity::Warning) => ("warning", "warning"),
        (Verdict::Violated, Severity::Notice) => ("notice", "notice"),
    };
    let steps: String = finding.next_steps.iter().map(|step| format!("<li>{}</li>", html(step))).collect();
    format!(
        "<article class=\"finding {class}\"><span class=\"badge {class}\">{badge}</span><h3>{}</h3>\
         <ul>{steps}</ul><details><summary>Everything that is known of it</summary><pre tabindex=\"0\">{}</pre></details></article>",
        html(&finding.summary),
        html(&render::finding(finding, Style::default()))
    )
}

/// What was watched, and how much of it.
pub fn basis(page: &Page) -> String {
    let s = &page.report.statistics;
    let calls: u64 = s.processes.iter().map(|process| process.mpi_calls).sum();
    let share = s.watched_ns as f64 / s.duration_ns.max(1) as f64 * 100.0;
    let counts = [
        (s.processes.iter().filter(|process| process.rank.is_some()).count().to_string(), "ranks"),
        (grouped(calls), "MPI calls"),
        (grouped(s.movements), "data movements"),
        (format!("{share:.0}%"), "of the time watched"),
        (grouped(s.lost()), "records lost"),
    ];
    let counts: String =
        counts.iter().map(|(count, what)| format!("<li><b>{count}</b><span>{what}</span></li>")).collect();
    let lines: String = page.basis.iter().map(|line| format!("<p>{}</p>", html(line))).collect();
    let given_up = match page.timeline.given_up {
        0 => String::new(),
        n => format!(
            "<p>The timeline has the last calls of each thread; {} earlier ones are counted but not shown.</p>",
            grouped(n)
        ),
    };
    format!("<ul class=\"counts\">{counts}</ul>{lines}{given_up}")
}

/// `12 345`, with spaces that do not break.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Who made it.
pub fn footer(page: &Page) -> String {
    let session = &page.report.session;
    html(&format!(
        "dmscope {}; Linux {}; session of {} (UTC). The data of this page is in it as JSON (schema {}).",
        session.dmscope_version,
        session.kernel,
        date(session.wall_clock_s),
        page.schema
    ))
}

/// `2026-11-21 09:30`, by the proleptic Gregorian calendar.
fn date(since_1970_s: u64) -> String {
    let (days, seconds) = (since_1970_s / 86_400, since_1970_s % 86_400);
    // Days since 0000-03-01, in eras of 400 years, so that a leap day is the last of its year.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_795_254_600), "2026-11-21 09:50");
        assert!(date(u64::MAX).len() > 10);
    }

    #[test]
    fn long_numbers_are_in_groups_of_three() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
