//! What is worked out of calls.

use super::super::call_step::{EnteredCollective, PostedEnvelope, TimedCall};
use super::super::waits::Moment;
use crate::job::messages::{CallId, MessageId};
use crate::tape::input::CodePlace;

/// A call that was worked out.
#[derive(Clone, Debug)]
pub struct SolvedCall {
    /// The call.
    pub step: TimedCall,
    /// When it begins.
    pub begin: Moment,
    /// When it ends; the same if it was not seen to return.
    pub end: Moment,
    /// When the call before it ended; none: it is the first of its thread.
    pub before: Option<Moment>,
    /// What it waited for is not known.
    pub is_open: bool,
    /// Messages that it received, as they were sent.
    pub received: Vec<ReceivedMessage>,
}

/// A call has begun, and what it posts can be waited for.
#[derive(Clone, Debug)]
pub struct BegunCall {
    /// Which.
    pub id: CallId,
    /// Name as in the standard.
    pub name: &'static str,
    /// When.
    pub begin: Moment,
    /// Where it was made.
    pub place: Option<CodePlace>,
    /// It posts messages, or has a part in an epoch.
    pub posts: bool,
    /// Of what it sends, if that is known.
    pub sends: Option<PostedEnvelope>,
    /// Of what it receives, if that is known.
    pub receives: Option<PostedEnvelope>,
    /// It receives from whoever comes first.
    pub is_from_anybody: bool,
    /// Collective calls that it enters.
    pub entered: Vec<EnteredCollective>,
}

/// What was worked out, in an order in which nothing comes before what it depends on.
#[derive(Clone, Debug)]
pub enum SolvedMoment {
    /// When a call begins.
    Begins(Box<BegunCall>),
    /// When it ends.
    Ends(Box<SolvedCall>),
}

/// A message that a call has received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMessage {
    /// The receive.
    pub receive: MessageId,
    /// The send.
    pub send: MessageId,
    /// When it was sent.
    pub sent: Moment,
    /// Length class, and what is known of such transfers.
    pub class: u8,
}

impl BegunCall {
    pub(super) fn of(step: &TimedCall, begin: Moment) -> Self {
        Self {
            id: step.id,
            name: step.name,
            begin,
            place: step.place,
            sends: step.sends.filter(|_| step.posts),
            receives: step.receives.filter(|_| step.posts),
            posts: step.posts,
            is_from_anybody: step.is_from_anybody,
            entered: step.entered.clone(),
        }
    }
}
