//! At most two of something: a call has no more messages than one that it sends and one that it receives.

/// In the order in which they were put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Few<T>([Option<T>; 2]);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self([None, None])
    }
}

impl<T: Copy> Few<T> {
    /// One of it.
    pub fn one(item: T) -> Self {
        Self([Some(item), None])
    }

    /// Puts one in; a third is left out.
    pub fn push(&mut self, item: T) {
        if let Some(free) = self.0.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(item);
        }
    }

    /// The first.
    pub fn first(&self) -> Option<T> {
        self.0[0]
    }

    /// The other one.
    pub fn second(&self) -> Option<T> {
        self.0[1]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}
