//! The view on a terminal: a few lines that stay below, findings that scroll above them.

use std::collections::BTreeMap;
use std::io::Stdout;
use std::time::Instant;

use analyzer::finding::{Alert, GroupView, Report, Severity};
use analyzer::render::{self, Style};
use analyzer::text::place_text;
use analyzer::visible::visible;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style as TuiStyle};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::text::TextSink;
use crate::budget::BudgetStatus;
use crate::session::{AttachSummary, Recorded, SessionStatus, Sink};

const GROUPS: usize = 5;
const LINES: u16 = 5 + GROUPS as u16;

/// Draws on the terminal; falls back to text line by line when that fails.
pub struct LiveSink {
    terminal: Option<Terminal<CrosstermBackend<Stdout>>>,
    text: TextSink<Stdout>,
    job: String,
    begin: Instant,
    last: (Instant, SessionStatus),
    /// What was raised and holds.
    findings: BTreeMap<String, Severity>,
}

impl LiveSink {
    /// Takes the lower part of the terminal.
    pub fn new(job: String, statistics: bool, all: bool) -> Self {
        // The terminal stays in its usual mode, so that ctrl-c is a signal as ever.
        let options = TerminalOptions { viewport: Viewport::Inline(LINES) };
        let terminal = Terminal::with_options(CrosstermBackend::new(std::io::stdout()), options).ok();
        let now = Instant::now();
        let text = TextSink::new(std::io::stdout(), Style { colour: true, all }, false, statistics);
        Self {
            terminal,
            text,
            job: visible(&job).into_owned(),
            begin: now,
            last: (now, SessionStatus::default()),
            findings: BTreeMap::new(),
        }
    }

    /// Writes above the view.
    fn above(&mut self, text: &str) {
        let Some(terminal) = &mut self.terminal else {
            self.text.print(text);
            return;
        };
        let width = terminal.size().map_or(80, |size| size.width.max(1));
        let paragraph = Paragraph::new(Text::raw(text.trim_end().to_owned())).wrap(Wrap { trim: false });
        let lines: usize =
            text.trim_end().lines().map(|line| line.chars().count().div_ceil(width.into()).max(1)).sum();
        let lines = u16::try_from(lines).unwrap_or(u16::MAX);
        if terminal.insert_before(lines, |buffer| paragraph.render(buffer.area, buffer)).is_err() {
            self.terminal = None;
            self.text.print(text);
        }
    }

    fn draw(&mut self, status: &SessionStatus, report: Option<&Report>) {
        let text = self.view(status, report);
        if let Some(terminal) = &mut self.terminal {
            let drawn = terminal.draw(|frame| {
                let area: Rect = frame.area();
                frame.render_widget(Paragraph::new(text), area);
            });
            if drawn.is_err() {
                self.terminal = None;
            }
        }
    }

    fn view(&self, status: &SessionStatus, report: Option<&Report>) -> Text<'static> {
        let bold = TuiStyle::default().add_modifier(Modifier::BOLD);
        let seconds = self.last.0.elapsed().as_secs_f64().max(0.001);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds).round() as u64;
        let lost = rate(status.lost, self.last.1.lost);
        let warnings = self.findings.values().filter(|severity| **severity == Severity::Warning).count();
        let notices = self.findings.len() - warnings;
        let mut lines = vec![
            Line::from(Span::styled(
                format!(
                    "dmscope  {}  {} s  (ctrl-c: detach and report)",
                    self.job,
                    self.begin.elapsed().as_secs()
                ),
                bold,
            )),
            Line::from(format!("ranks {:<14} probes {}", ranks(&status.ranks), status.probes)),
            Line::from(vec![
                Span::raw(format!(
                    "records {:>10}/s  {:>12} in all   ",
                    rate(status.records, self.last.1.records),
                    status.records
                )),
                Span::styled(
                    format!("lost {lost}/s, {} in all", status.lost),
                    if status.lost > 0 { TuiStyle::default().fg(Color::Red) } else { TuiStyle::default() },
                ),
            ]),
            Line::from(status.budget.as_ref().map(budget_line).unwrap_or_default()),
            Line::from(vec![
                Span::raw("warnings "),
                Span::styled(
                    warnings.to_string(),
                    if warnings > 0 {
                        TuiStyle::default().fg(Color::Red).add_modifier(Modifier::BOLD)
                    } else {
                        bold
                    },
                ),
                Span::raw(format!("   notices {notices}")),
            ]),
        ];
        if let Some(report) = report {
            let s = &report.statistics;
            lines.push(Line::from(format!("chains {} in {} groups; most frequent:", s.chains, s.groups)));
            lines.extend(s.top_groups.iter().take(GROUPS).map(|group| Line::from(group_line(group))));
        }
        Text::from(lines)
    }
}

fn budget_line(budget: &BudgetStatus) -> String {
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let off = match budget.probes_off {
        0 => String::new(),
        n => format!(", {n} probes detached"),
    };
    format!(
        "overhead {} of the job's time (budget {}); coverage {}{off}",
        percent(budget.spent_share),
        percent(budget.share),
        percent(budget.watched_share),
    )
}

fn group_line(group: &GroupView) -> String {
    let ops: Vec<String> = group
        .ops
        .iter()
        .map(|op| match op.place.frames.first() {
            Some(frame) => visible(&frame.function).into_owned(),
            None => place_text(&op.place),
        })
        .collect();
    format!("{:>10}  {}", group.chains, ops.join(" → "))
}

/// `0-3,5`.
fn ranks(ranks: &[u32]) -> String {
    crate::host::cpus::format_list(&ranks.iter().copied().collect())
}

impl Sink for LiveSink {
    fn trouble(&mut self) -> Option<std::io::Error> {
        self.text.trouble()
    }

    fn placed(&mut self, _spare_cpus: &[u32]) {}

    fn attached(&mut self, summary: &AttachSummary) {
        self.above(&format!(
            "Attached {} in {} files in {} ms",
            summary.probes_text(),
            summary.files,
            summary.took_ms
        ));
        for note in &summary.notes {
            self.notice(note);
        }
    }

    fn notice(&mut self, message: &str) {
        self.above(&format!("Note: {}", visible(message)));
    }

    fn status(&mut self, status: &SessionStatus, report: Option<&Report>) {
        self.draw(status, report);
        self.last = (Instant::now(), status.clone());
    }

    fn wants_report(&self) -> bool {
        true
    }

    fn alert(&mut self, alert: &Alert) {
        match alert {
            Alert::Raised(finding) => {
                self.findings.insert(finding.id.clone(), finding.severity);
                if finding.is_urgent() {
                    self.above(&format!("{}\n ", render::finding(finding, Style::default())));
                    self.text.told(&finding.id);
                }
            }
            Alert::Withdrawn { id, reason } => {
                self.findings.remove(id);
                if let Some(text) = self.text.taken_back(id, reason) {
                    self.above(&text);
                }
            }
        }
    }

    fn recorded(&mut self, tape: &Recorded<'_>) {
        self.text.recorded(tape);
    }

    fn report(&mut self, report: &Report) {
        if let Some(terminal) = &mut self.terminal {
            // The last numbers are in the report.
            let _ = terminal.clear();
        }
        self.terminal = None;
        self.text.report(report);
    }
}
