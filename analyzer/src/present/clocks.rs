//! How far times of a job on several nodes may be off.

use super::text::duration_text;
use super::visible::visible;
use crate::tape::input::Start;

/// So many nodes are named one by one.
const MOST_NAMED: usize = 4;

/// How far times of a node may be off beside those of the first one, whose clock all times are told by; none: nobody knows.
pub(crate) fn time_error_ns(start: &Start, node: usize) -> Option<u64> {
    let error_ns = |node: usize| start.node_clock_errors_ns.get(node).copied().flatten();
    if node == 0 { Some(0) } else { Some(error_ns(0)?.saturating_add(error_ns(node)?)) }
}

/// The same in a sentence, of all nodes; none if there is one.
pub fn clocks_text(start: &Start) -> Option<String> {
    let (first, others) = start.nodes.split_first()?;
    let text = |error_ns: Option<u64>| error_ns.map_or("an unknown time".into(), duration_text);
    let error_of = |other: usize| time_error_ns(start, other + 1);
    let off = match others {
        [] => return None,
        others if others.len() <= MOST_NAMED => {
            let one = |(other, host): (usize, &String)| {
                format!("on {} by {}", visible(host), text(error_of(other)))
            };
            others.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
        }
        others => {
            let errors: Vec<Option<u64>> = (0..others.len()).map(error_of).collect();
            let unknown = errors.iter().filter(|error_ns| error_ns.is_none()).count();
            let known = errors.len() - unknown;
            let most = text(errors.into_iter().flatten().max());
            match (known, unknown) {
                (_, 0) => format!("on other nodes by {most}"),
                (0, _) => "on other nodes by an unknown time".to_owned(),
                _ => format!("on {known} other nodes by {most}, on {unknown} by an unknown time"),
            }
        }
    };
    Some(format!("Times are those of {}'s clock, and may be off {off}.", visible(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(errors_ns: &[Option<u64>]) -> Start {
        let nodes = (0..errors_ns.len()).map(|node| format!("n{node}")).collect();
        Start { nodes, node_clock_errors_ns: errors_ns.to_vec(), ..Start::default() }
    }

    #[test]
    fn errors_of_two_clocks_add_up_and_what_is_not_known_is_said() {
        let text = |errors_ns: &[Option<u64>]| clocks_text(&start(errors_ns)).unwrap_or_default();
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[Some(5)]), "");
        let two = text(&[Some(2_000_000), Some(1_000_000), None]);
        assert_eq!(
            two,
            "Times are those of n0's clock, and may be off on n1 by 3 ms, on n2 by an unknown time."
        );
        let many = text(&[Some(1000); 9]);
        assert_eq!(many, "Times are those of n0's clock, and may be off on other nodes by 2 µs.");
        let some = text(&[Some(0), Some(1000), None, Some(3000), None, None]);
        assert!(some.contains("on 2 other nodes by 3 µs, on 3 by an unknown time"), "{some}");
    }
}
