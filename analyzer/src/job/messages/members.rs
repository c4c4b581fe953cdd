//! Who is in a communicator, and what its making says of their order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Ranks of MPI_COMM_WORLD, by their ranks in a communicator or group.
pub(super) type Members = Arc<[u32]>;

/// What a rank gave to a call that divides a communicator, or joins what is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberChoice {
    pub color: i32,
    pub key: i32,
    /// Ranks of one color must be in the same place, or nothing is known of them.
    pub place: u64,
}

/// All members, numbered: in a communicator of one group by their ranks; in an intercommunicator those of one group by
/// their ranks, then those of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    all: Members,
    /// Where the second group begins, if there are two.
    second: Option<usize>,
    /// Sizes of the dimensions of a grid.
    grid: Option<Arc<[u32]>>,
}

impl From<Members> for Membership {
    fn from(all: Members) -> Self {
        Self { all, second: None, grid: None }
    }
}

impl Membership {
    /// By their numbers.
    pub fn all(&self) -> &Members {
        &self.all
    }

    /// Whether it has two groups.
    pub fn is_inter(&self) -> bool {
        self.second.is_some()
    }

    /// The group that a member is in: the numbers of its members.
    fn own_group(&self, own: u32) -> Range<usize> {
        match self.second {
            None => 0..self.all.len(),
            Some(second) if (own as usize) < second => 0..second,
            Some(second) => second..self.all.len(),
        }
    }

    /// The group whose members a member speaks to.
    fn other_group(&self, own: u32) -> Range<usize> {
        match self.second {
            None => 0..self.all.len(),
            Some(second) if (own as usize) < second => second..self.all.len(),
            Some(second) => 0..second,
        }
    }

    /// Members of the group that a member is in.
    pub fn local(&self, own: u32) -> &[u32] {
        &self.all[self.own_group(own)]
    }

    /// Members whom a member speaks to, by the ranks that it names.
    pub fn remote(&self, own: u32) -> &[u32] {
        &self.all[self.other_group(own)]
    }

    /// The number of whom a member names by a rank.
    pub fn number(&self, own: u32, rank: u32) -> Option<u32> {
        let group = self.other_group(own);
        let number = group.start.checked_add(rank as usize)?;
        group.contains(&number).then_some(number as u32)
    }

    /// The rank by which a number is named.
    pub fn rank(&self, number: u32) -> u32 {
        number.saturating_sub(self.own_group(number).start as u32)
    }

    /// The first ones of a communicator of one group.
    pub fn first(&self, count: usize) -> Option<Self> {
        let first = self.all.get(..count).filter(|_| !self.is_inter())?;
        Some(Members::from(first).into())
    }

    /// As many of the first ones as a grid has points.
    pub fn gridded(&self, sizes: &Arc<[u32]>) -> Option<Self> {
        let points = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size as usize))?;
        Some(Self { grid: Some(Arc::clone(sizes)), ..self.first(points)? })
    }

    /// Those that have the coordinates of one of them in all dimensions of the grid but those that remain.
    pub fn remaining(&self, own: u32, remain: &[i32]) -> Option<Self> {
        let sizes = self.grid.as_ref()?;
        let remain = remain.get(..sizes.len())?;
        let (mut numbers, mut left, mut stride) = (vec![0], own as usize, self.all.len());
        for (size, remain) in sizes.iter().zip(remain) {
            stride = stride.checked_div(*size as usize)?;
            let coordinate = left.checked_div(stride)?;
            left -= coordinate * stride;
            let coordinates = if *remain == 0 { coordinate..coordinate + 1 } else { 0..*size as usize };
            let before = std::mem::take(&mut numbers).into_iter();
            numbers = before.flat_map(|at| coordinates.clone().map(move |c| at + c * stride)).collect();
        }
        let all: Option<Members> = numbers.into_iter().map(|at| self.all.get(at).copied()).collect();
        let sizes = sizes.iter().zip(remain).filter(|(_, remain)| **remain != 0).map(|(size, _)| *size);
        Some(Self { all: all?, second: None, grid: Some(sizes.collect()) })
    }

    /// Those that gave a color, by key; in an intercommunicator, of each group.
    pub fn of_color(&self, choices: &BTreeMap<u32, MemberChoice>, color: i32) -> Option<Self> {
        // Nobody returns before all have called; if one was not seen, who is in it is not known.
        if choices.len() < self.all.len() {
            return None;
        }
        let mut of_color = choices.values().filter(|choice| choice.color == color);
        let place = of_color.next()?.place;
        if of_color.any(|choice| choice.place != place) {
            return None;
        }
        let (first, second) = self.all.split_at_checked(self.second.unwrap_or(self.all.len()))?;
        let (first, second) = (by_key(first, choices, color), by_key(second, choices, color));
        if self.is_inter() { Self::between(&first, &second) } else { Some(Members::from(first).into()) }
    }

    /// Two groups that speak to each other: in an order that both know.
    pub fn between(one: &[u32], other: &[u32]) -> Option<Self> {
        let different: FxHashSet<u32> = one.iter().chain(other).copied().collect();
        if one.is_empty() || other.is_empty() || different.len() < one.len() + other.len() {
            return None;
        }
        let (first, second) = if one < other { (one, other) } else { (other, one) };
        let all = first.iter().chain(second).copied().collect();
        Some(Self { all, second: Some(first.len()), grid: None })
    }

    /// Both groups as one: those come last that gave the higher color. If both gave the same, the library decides.
    pub fn merged(&self, choices: &BTreeMap<u32, MemberChoice>) -> Option<Self> {
        let (first, second) = self.all.split_at_checked(self.second?)?;
        let colors = color_of(first, choices)?.cmp(&color_of(second, choices)?);
        let all: Members = match colors {
            Ordering::Less => Arc::clone(&self.all),
            Ordering::Greater => second.iter().chain(first).copied().collect(),
            Ordering::Equal => return None,
        };
        Some(all.into())
    }
}

/// Those of a group that gave a color, by key and then by rank.
fn by_key(group: &[u32], choices: &BTreeMap<u32, MemberChoice>, color: i32) -> Vec<u32> {
    let chosen = group.iter().enumerate().filter_map(|(at, rank)| Some((at, rank, choices.get(rank)?)));
    let mut members: Vec<(i32, usize, u32)> = chosen
        .filter(|(_, _, choice)| choice.color == color)
        .map(|(at, rank, choice)| (choice.key, at, *rank))
        .collect();
    members.sort_unstable();
    members.into_iter().map(|(_, _, rank)| rank).collect()
}

/// The color that all of a group gave who are known to have given one.
fn color_of(group: &[u32], choices: &BTreeMap<u32, MemberChoice>) -> Option<i32> {
    let mut colors = group.iter().filter_map(|rank| choices.get(rank)).map(|choice| choice.color);
    let color = colors.next()?;
    colors.all(|other| other == color).then_some(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(members: &[u32]) -> Membership {
        Members::from(members).into()
    }

    fn grid(members: &[u32], sizes: &[u32]) -> Option<Membership> {
        of(members).gridded(&Arc::from(sizes))
    }

    fn choices(all: &[(u32, i32, i32)]) -> BTreeMap<u32, MemberChoice> {
        all.iter().map(|&(rank, color, key)| (rank, MemberChoice { color, key, place: 0 })).collect()
    }

    fn remaining(grid: &Membership, own: u32, remain: &[i32]) -> Option<Vec<u32>> {
        grid.remaining(own, remain).map(|part| part.all.to_vec())
    }

    #[test]
    fn parts_of_a_grid_have_the_same_coordinates_in_what_does_not_remain() {
        let world: Vec<u32> = (10..40).collect();
        let grid = grid(&world, &[2, 3, 4]).expect("there are more ranks than points");
        assert_eq!(grid.all.len(), 24);
        // Number 17 has the coordinates 1, 1, 1.
        assert_eq!(remaining(&grid, 17, &[0, 0, 1]), Some(vec![26, 27, 28, 29]));
        assert_eq!(remaining(&grid, 17, &[0, 1, 0]), Some(vec![23, 27, 31]));
        assert_eq!(remaining(&grid, 17, &[1, 0, 0]), Some(vec![15, 27]));
        assert_eq!(remaining(&grid, 17, &[1, 0, 1]), Some(vec![14, 15, 16, 17, 26, 27, 28, 29]));
        assert_eq!(remaining(&grid, 17, &[1, 1, 1]), Some(grid.all.to_vec()));
        assert_eq!(remaining(&grid, 17, &[0, 0, 0]), Some(vec![27]));
    }

    #[test]
    fn a_part_of_a_grid_is_a_grid_of_the_dimensions_that_remain() {
        let grid = grid(&[0, 1, 2, 3, 4, 5], &[2, 3]).expect("a grid");
        let row = grid.remaining(4, &[0, 1, 1, 1]).expect("a row");
        assert_eq!(row.grid.as_deref(), Some(&[3][..]));
        let point = row.remaining(1, &[0]).expect("a point");
        assert_eq!((point.grid.as_deref(), &point.all[..]), (Some(&[][..]), &[4][..]));
        assert_eq!(point.remaining(0, &[]), Some(point));
    }

    #[test]
    fn of_grids_that_cannot_be_nothing_is_known() {
        assert_eq!(grid(&[0, 1, 2], &[2, 2]), None);
        assert_eq!(grid(&[0, 1, 2], &[u32::MAX, u32::MAX, u32::MAX]), None);
        let empty = grid(&[0, 1, 2], &[0, u32::MAX]).expect("a grid without points");
        assert_eq!(empty.remaining(0, &[1, 1]), None);
        let line = grid(&[0, 1, 2], &[3]).expect("a grid");
        assert_eq!(remaining(&line, u32::MAX, &[0]), None);
        assert_eq!(remaining(&line, 0, &[]), None);
        assert_eq!(of(&[0, 1]).remaining(0, &[1]), None);
        let between = Membership::between(&[0], &[1]).expect("two groups");
        assert_eq!((between.first(1), between.gridded(&Arc::from([1]))), (None, None));
    }

    #[test]
    fn members_of_an_intercommunicator_name_those_of_the_other_group() {
        let inter = Membership::between(&[4, 2], &[1, 3, 0]).expect("two groups");
        assert_eq!(&inter.all[..], [1, 3, 0, 4, 2]);
        assert_eq!((inter.local(1), inter.remote(1)), (&[1, 3, 0][..], &[4, 2][..]));
        assert_eq!((inter.local(3), inter.remote(3)), (&[4, 2][..], &[1, 3, 0][..]));
        assert_eq!([0, 1, 2].map(|rank| inter.number(0, rank)), [Some(3), Some(4), None]);
        assert_eq!([0, 2, 3].map(|rank| inter.number(4, rank)), [Some(0), Some(2), None]);
        assert_eq!(inter.number(0, u32::MAX), None);
        assert_eq!([0, 2, 3, 4].map(|number| inter.rank(number)), [0, 2, 0, 1]);
    }

    #[test]
    fn nobody_is_in_both_groups() {
        assert_eq!(Membership::between(&[0, 1], &[1, 2]), None);
        assert_eq!(Membership::between(&[0, 0], &[1]), None);
        assert_eq!(Membership::between(&[], &[1]), None);
    }

    #[test]
    fn both_groups_of_an_intercommunicator_are_divided_each_by_itself() {
        let inter = Membership::between(&[0, 1], &[2, 3]).expect("two groups");
        let given = choices(&[(0, 7, 1), (1, 7, 0), (2, 7, 0), (3, 8, 0)]);
        let part = inter.of_color(&given, 7).expect("some of each");
        assert_eq!((part.local(0), part.remote(0)), (&[1, 0][..], &[2][..]));
        assert_eq!(inter.of_color(&given, 8), None);
        assert_eq!(inter.of_color(&given, 9), None);
    }

    #[test]
    fn who_gave_the_higher_value_comes_last_when_groups_are_merged() {
        let inter = Membership::between(&[0, 1], &[2, 3]).expect("two groups");
        let merged = |given: &[(u32, i32, i32)]| inter.merged(&choices(given)).map(|all| all.all.to_vec());
        assert_eq!(merged(&[(0, 1, 0), (1, 1, 0), (2, 0, 0), (3, 0, 0)]), Some(vec![2, 3, 0, 1]));
        assert_eq!(merged(&[(0, 0, 0), (3, 1, 0)]), Some(vec![0, 1, 2, 3]));
        assert_eq!(merged(&[(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0)]), None);
        assert_eq!(merged(&[(0, 1, 0), (1, 0, 0), (2, 0, 0)]), None);
        assert_eq!(merged(&[(0, 1, 0)]), None);
        assert_eq!(of(&[0, 1]).merged(&choices(&[(0, 1, 0), (1, 0, 0)])), None);
    }

    #[test]
    fn who_is_in_another_place_makes_a_color_unknown() {
        let mut given = choices(&[(0, 0, 2), (1, 0, 1), (2, -5, 0)]);
        let world = of(&[0, 1, 2]);
        assert_eq!(world.of_color(&given, 0), Some(of(&[1, 0])));
        given.insert(2, MemberChoice { color: -5, key: 0, place: 9 });
        assert_eq!(world.of_color(&given, 0), Some(of(&[1, 0])));
        given.insert(1, MemberChoice { color: 0, key: 1, place: 9 });
        assert_eq!(world.of_color(&given, 0), None);
    }
}
