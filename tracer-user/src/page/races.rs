//! A page about the races of a recorded job: what came, and what could have come.

use std::fmt::Write;

use replay::races::{CallPart, MessagePart, RaceDiagram};

use super::escape::html;
use super::{STYLE, filled, policy};

const TEMPLATE: &str = include_str!("races.html");
const RACES_STYLE: &str = include_str!("races.css");

/// All that is on the page.
#[derive(Clone, Debug, Default)]
pub struct RacesPage {
    /// Whose races they are: the tape.
    pub tape: String,
    /// How many there are, in words.
    pub summary: Vec<String>,
    /// Those that are shown.
    pub races: Vec<DrawnRace>,
}

/// One of them.
#[derive(Clone, Debug, Default)]
pub struct DrawnRace {
    /// Where it is, and what came.
    pub heading: String,
    /// What could have come, each with the command that goes that way.
    pub others: Vec<[String; 2]>,
    /// What is drawn.
    pub diagram: RaceDiagram,
    /// What each call of it is, for who points at it.
    pub calls: Vec<String>,
}

/// The page as HTML.
pub fn races_html(page: &RacesPage) -> String {
    let style = format!("{STYLE}\n{RACES_STYLE}");
    let (heading, tone) = match page.races.len() {
        0 => ("Nothing could have gone otherwise", ""),
        _ => ("Where the job could have gone another way", "suspicion"),
    };
    let summary: Vec<String> = page.summary.iter().map(|line| html(line)).collect();
    filled(TEMPLATE, |name| match name {
        "policy" => policy("", &style),
        "title" => html(&format!("Races of {}", page.tape)),
        "style" => style.clone(),
        "tone" => tone.to_owned(),
        "heading" => heading.to_owned(),
        "summary" => summary.join("<br>"),
        "races" => page.races.iter().map(race_html).collect(),
        "footer" => html(&format!("dmscope races --page, of {}", page.tape)),
        _ => String::new(),
    })
}

fn race_html(race: &DrawnRace) -> String {
    let others = race.others.iter().map(|[words, command]| {
        format!("<li>could have come: {} – <code>{}</code></li>", html(words), html(command))
    });
    format!(
        "<section class=\"race\"><h2>{}</h2><figure>{}</figure><ul>{}</ul></section>\n",
        html(&race.heading),
        drawing(race),
        others.collect::<String>()
    )
}

/// In pixels.
const NAMES_WIDTH: u32 = 80;
const COLUMN_WIDTH: u32 = 34;
const ROW_HEIGHT: u32 = 74;
const BOX_HEIGHT: u32 = 22;
/// Around the beginning and the end of a call.
const BOX_MARGIN: u32 = 9;

fn x(column: u32) -> u32 {
    NAMES_WIDTH + COLUMN_WIDTH / 2 + column * COLUMN_WIDTH
}

fn y(row: u32) -> u32 {
    ROW_HEIGHT / 2 + row * ROW_HEIGHT
}

fn drawing(race: &DrawnRace) -> String {
    let drawn = &race.diagram;
    let (width, height) = (x(drawn.columns), drawn.ranks.len() as u32 * ROW_HEIGHT);
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"><defs>",
        html(&race.heading)
    );
    for part in ["near", "taken", "possible"] {
        let _ = write!(
            svg,
            "<marker id=\"{part}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head-{part}\" d=\"M0 0L8 4L0 8z\"/></marker>"
        );
    }
    svg.push_str("</defs>");
    for (row, rank) in (0..).zip(&drawn.ranks) {
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"4\" y=\"{}\">rank {rank}</text><path class=\"rank\" d=\"M{NAMES_WIDTH} {}H{width}\"/>",
            y(row) + 5,
            y(row)
        );
    }
    for (call, words) in drawn.calls.iter().zip(&race.calls) {
        let class = match call.part {
            CallPart::Race => " race-call",
            CallPart::Sender => " sender",
            CallPart::Near => "",
        };
        let [begin, end] = call.columns.map(x);
        let _ = write!(
            svg,
            "<g><title>{}</title><rect class=\"call{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BOX_HEIGHT}\" rx=\"5\"/>\
             <text x=\"{}\" y=\"{}\">{}</text></g>",
            html(words),
            begin - BOX_MARGIN,
            y(call.row) - BOX_HEIGHT / 2,
            end - begin + 2 * BOX_MARGIN,
            u32::midpoint(begin, end),
            y(call.row) + 4,
            call.call
        );
    }
    for message in &drawn.messages {
        let ends = [message.from, message.to].map(|call| drawn.calls.get(call as usize));
        if let [Some(from), Some(to)] = ends {
            let name = match message.part {
                MessagePart::Taken => "taken",
                MessagePart::Possible => "possible",
                MessagePart::Near => "near",
            };
            let _ = write!(
                svg,
                "<path class=\"message {name}\" marker-end=\"url(#{name})\" d=\"{}\"><title>tag {}</title></path>",
                way([x(from.columns[0]), x(to.columns[1])], [from.row, to.row]),
                message.tag
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// From the edge of one box to that of another; a message of a rank to itself goes around.
fn way([from, to]: [u32; 2], [from_row, to_row]: [u32; 2]) -> String {
    let half = BOX_HEIGHT / 2;
    match from_row.cmp(&to_row) {
        std::cmp::Ordering::Less => format!("M{from} {}L{to} {}", y(from_row) + half, y(to_row) - half),
        std::cmp::Ordering::Greater => format!("M{from} {}L{to} {}", y(from_row) - half, y(to_row) + half),
        std::cmp::Ordering::Equal => {
            let (edge, top) = (y(from_row) - half, y(from_row) - ROW_HEIGHT / 2 + 4);
            format!("M{from} {edge}C{from} {top} {to} {top} {to} {edge}")
        }
    }
}

#[cfg(test)]
mod tests {
    use replay::races::{DiagramCall, DiagramMessage};

    use super::*;

    fn call(row: u32, columns: [u32; 2], part: CallPart) -> DiagramCall {
        DiagramCall { row, call: 7, columns, part, site: None }
    }

    fn page() -> RacesPage {
        let diagram = RaceDiagram {
            ranks: vec![0, 3],
            calls: vec![call(0, [0, 3], CallPart::Race), call(1, [1, 2], CallPart::Sender)],
            messages: vec![DiagramMessage { from: 1, to: 0, tag: 5, part: MessagePart::Possible }],
            columns: 4,
        };
        RacesPage {
            tape: "<a>.dmt".to_owned(),
            summary: vec!["1 of 1".to_owned()],
            races: vec![DrawnRace {
                heading: "0:7 MPI_Recv at </svg><script>.c:3".to_owned(),
                others: vec![["rank 3 & others".to_owned(), "dmscope replay".to_owned()]],
                diagram,
                calls: vec!["call 7".to_owned(), "call 7".to_owned()],
            }],
        }
    }

    #[test]
    fn all_calls_and_messages_are_drawn_and_text_is_only_text() {
        let html = races_html(&page());
        assert_eq!(html.matches("<rect class=\"call").count(), 2);
        assert_eq!(html.matches("<path class=\"message possible\"").count(), 1);
        assert!(html.contains("rank 3 &amp; others") && html.contains("&lt;/svg&gt;&lt;script&gt;.c:3"));
        assert!(!html.contains("<script"), "there is a script");
        assert!(
            !html.contains("{{") && !html.contains(" style="),
            "a name is left, or a style that is not allowed"
        );
    }

    #[test]
    fn a_page_without_races_says_so() {
        let html = races_html(&RacesPage { tape: "x.dmt".to_owned(), ..RacesPage::default() });
        assert!(html.contains("Nothing could have gone otherwise"));
    }
}
