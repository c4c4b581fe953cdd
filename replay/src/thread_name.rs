//! Names of threads, which are the same in every run.
//!
//! The process begins with one thread. Any other is named after the one that creates it, and after how many that has created before.

/// The name of the thread that a process begins with.
pub const FIRST_THREAD: u64 = 1;
/// No thread's: of the row in which clocks are recorded where threads call one at a time.
pub const CLOCKS_ROW: u64 = 2;

/// The name of the thread that one of this name creates as its `number`th, from 1.
#[must_use]
pub fn child_name(parent: u64, number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (parent.rotate_left(32) ^ number).wrapping_mul(FACTOR);
    (mixed ^ mixed >> 29).wrapping_mul(FACTOR).max(CLOCKS_ROW + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names_of_their_own_by_who_created_them() {
        let children = |parent: u64| (1..100).map(move |number| child_name(parent, number));
        let mut names: Vec<u64> =
            children(FIRST_THREAD).chain(children(FIRST_THREAD).flat_map(children)).collect();
        assert_eq!(names[0], child_name(FIRST_THREAD, 1), "it is the same in every run");
        names.push(FIRST_THREAD);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), names[0]), (count, FIRST_THREAD));
    }
}
