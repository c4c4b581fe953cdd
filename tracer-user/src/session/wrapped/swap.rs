//! Points of exchange, as users name them: `RANK:CALL`, and what comes first there.

use std::fmt;
use std::str::FromStr;

use replay::RankCut;
use replay::races::{Alternative, Race, RaceKind, Races};

/// The call of a rank that takes one of several messages, or of several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangePoint {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Its call, from 1, as in what `dmscope replay` says.
    pub call: u64,
    /// Of several receives that the call posts, from 1.
    pub nth: u32,
}

impl ExchangePoint {
    /// Where a race is.
    pub fn of(race: &Race) -> Self {
        Self { rank: race.rank, call: race.call, nth: race.nth }
    }
}

impl fmt::Display for ExchangePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nth {
            1 => write!(f, "{}:{}", self.rank, self.call),
            nth => write!(f, "{}:{}.{nth}", self.rank, self.call),
        }
    }
}

/// Another message or request at such a point: `0:17=2` is the message of rank 2, `0:17=#2` the request with index 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Swap {
    /// Where.
    pub point: ExchangePoint,
    /// A rank of MPI_COMM_WORLD, or an index.
    pub number: u32,
    /// It is an index.
    pub is_request: bool,
}

impl Swap {
    /// Of a race.
    pub fn of(race: &Race, instead: Alternative) -> Self {
        let is_request = matches!(instead, Alternative::Request { .. });
        Self { point: ExchangePoint::of(race), number: instead.number(), is_request }
    }

    /// The race and what comes in it, if there is such a race.
    pub fn find<'r>(&self, races: &'r Races) -> Option<(&'r Race, Alternative)> {
        let is_it = |race: &&Race| {
            ExchangePoint::of(race) == self.point && (race.kind == RaceKind::Choice) == self.is_request
        };
        races.found.iter().filter(is_it).find_map(|race| {
            let other = race.others.iter().find(|other| other.number() == self.number)?;
            Some((race, *other))
        })
    }

    /// How the record of each rank is played.
    ///
    /// # Errors
    /// It cannot come: what can.
    pub fn cuts(&self, races: &Races) -> Result<Vec<RankCut>, String> {
        if let Some((race, other)) = self.find(races) {
            return Ok(races.cut(race, other));
        }
        let here: Vec<String> = races
            .found
            .iter()
            .filter(|race| ExchangePoint::of(race) == self.point)
            .flat_map(|race| race.others.iter().map(|other| Self::of(race, *other).to_string()))
            .collect();
        let point = self.point;
        Err(match here[..] {
            [] => format!("nothing else can come at {point}: `dmscope races` lists where something can"),
            _ => format!("{self} cannot come; what can come there in place of it: {}", here.join(", ")),
        })
    }
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_request { "#" } else { "" };
        write!(f, "{}={sign}{}", self.point, self.number)
    }
}

impl FromStr for Swap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let swap = || {
            let (point, number) = text.split_once('=')?;
            let (rank, call) = point.split_once(':')?;
            let (call, nth) = call.split_once('.').unwrap_or((call, "1"));
            let point =
                ExchangePoint { rank: rank.parse().ok()?, call: call.parse().ok()?, nth: nth.parse().ok()? };
            let is_request = number.starts_with('#');
            let number = number.strip_prefix('#').unwrap_or(number).parse().ok()?;
            Some(Self { point, number, is_request })
        };
        swap().ok_or_else(|| {
            "write it as `dmscope races` does: 0:17=2, at call 17 of rank 0 the message of rank 2; 0:17=#2, the request \
             with index 2"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_is_read_as_it_is_written() {
        for text in ["0:17=2", "3:4.2=1", "0:17=#2"] {
            assert_eq!(text.parse::<Swap>().map(|swap| swap.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "0:17", "0=2", "a:1=2", "0:1=#", "0:1.=2"] {
            assert!(text.parse::<Swap>().is_err(), "{text}");
        }
    }
}
