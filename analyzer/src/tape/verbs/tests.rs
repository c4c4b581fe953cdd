mod one_sided;

use proptest::prelude::*;

use super::enums::{RECEIVED, RECEIVED_WRITE, RELIABLE_CONNECTED, SIGNALED, operation, queue_state as state};
use super::{QueuePairs, RdmaAddress};
use crate::tape::wire::{Body, CallContext, Header, QueueChange, RawRecord, Record, WorkSegment};

const HOME: [u64; 2] = [0, 1];
const AWAY: [u64; 2] = [0, 2];
/// Process and queue pair of either end.
const A: (u32, u32) = (10, 17);
const B: (u32, u32) = (20, 18);
const SEND: u8 = operation::SEND;

/// What one record makes: from memory or into it, address, stream, position and length.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Moved {
    receive: bool,
    addr: u64,
    stream: u64,
    position: u32,
    len_bytes: u32,
}

struct Scene {
    pairs: QueuePairs,
    time_ns: u64,
    made: Vec<Body>,
}

impl Scene {
    fn new() -> Self {
        let mut pairs = QueuePairs::default();
        let address = |device, address| RdmaAddress { device: [device, 0], port: 1, index: Some(3), address };
        pairs.begin(5, vec![address(1, HOME), address(2, AWAY)]);
        Self { pairs, time_ns: 10, made: Vec::new() }
    }

    /// Both ends are connected under our eyes.
    fn connected() -> Self {
        let mut scene = Self::new();
        scene.connect(0);
        scene
    }

    fn connect(&mut self, shared: u32) {
        for (own, peer, device, address) in [(A, B, 1, AWAY), (B, A, 2, HOME)] {
            for state in [state::INIT, state::READY_TO_RECEIVE, state::READY_TO_SEND] {
                let change = QueueChange {
                    address,
                    queue: own.1,
                    peer: peer.1,
                    state,
                    transport: RELIABLE_CONNECTED,
                    port: 1,
                    index: 3,
                    is_global: true,
                    shared,
                    device: [device, 0],
                    ..QueueChange::default()
                };
                self.take(own.0, 1, Body::Queue(change));
            }
        }
    }

    fn take(&mut self, pid: u32, tid: u32, body: Body) {
        self.time_ns += 10;
        let header = Header { time_ns: self.time_ns, pid, tid, probe: 4 };
        let made = &mut self.made;
        let mut out = |raw: RawRecord| made.push(Record::decode(&raw).expect("made here").body);
        self.pairs.take(&Record { header, body }.encode(), &mut out);
    }

    fn post(&mut self, end: (u32, u32), work: WorkSegment) {
        self.take(end.0, 1, Body::Work(WorkSegment { queue: end.1, ..work }));
    }

    fn send(&mut self, end: (u32, u32), addr: u64, len_bytes: u32) {
        self.post(
            end,
            WorkSegment { addr, len_bytes, operation: SEND, segments: 1, ..WorkSegment::default() },
        );
    }

    fn post_receive(&mut self, end: (u32, u32), number: u64, addr: u64) {
        let work = WorkSegment {
            addr,
            number,
            len_bytes: 100,
            segments: 1,
            receive: true,
            ..WorkSegment::default()
        };
        self.post(end, work);
    }

    fn poll(&mut self, end: (u32, u32), number: u64, len_bytes: u32, operation: u32) {
        self.poll_by(1, 0, end, number, len_bytes, operation);
    }

    fn poll_by(
        &mut self,
        tid: u32,
        took_ns: u32,
        end: (u32, u32),
        number: u64,
        len_bytes: u32,
        operation: u32,
    ) {
        let context = CallContext::default();
        let queue = end.1;
        self.take(
            end.0,
            tid,
            Body::Completion { number, queue, len_bytes, operation, status: 0, took_ns, idle_ns: 0, context },
        );
    }

    /// What moved into streams and out of them since it was last asked.
    fn moved(&mut self) -> Vec<Moved> {
        let moved = self.made.drain(..).filter_map(|body| match body {
            Body::Stream { addr, stream, position, len_bytes, receive, .. } if len_bytes > 0 => {
                Some(Moved { receive, addr, stream, position, len_bytes })
            }
            _ => None,
        });
        moved.collect()
    }
}

#[test]
fn the_nth_message_that_is_sent_is_the_nth_that_is_received() {
    let mut scene = Scene::connected();
    scene.post_receive(B, 1, 500);
    scene.post_receive(B, 2, 600);
    scene.send(A, 100, 8);
    scene.send(A, 200, 0);
    scene.send(A, 300, 4);
    scene.poll(B, 1, 8, RECEIVED);
    scene.post_receive(B, 3, 700);
    scene.poll(B, 2, 0, RECEIVED);
    scene.poll(B, 3, 4, RECEIVED);
    let moved = scene.moved();
    let stream = moved[0].stream;
    let at = |receive, addr, position, len_bytes| Moved { receive, addr, stream, position, len_bytes };
    assert_ne!(stream, 0);
    assert_eq!(
        moved,
        [at(false, 100, 0, 8), at(false, 300, 10, 4), at(true, 500, 0, 8), at(true, 700, 10, 4)]
    );
}

#[test]
fn each_direction_has_a_stream_of_its_own_and_segments_are_filled_in_turn() {
    let mut scene = Scene::connected();
    for (segment, addr) in [(0, 500), (1, 600)] {
        let work = WorkSegment {
            addr,
            len_bytes: 6,
            number: 1,
            segment,
            segments: 2,
            receive: true,
            ..WorkSegment::default()
        };
        scene.post(A, work);
    }
    for (segment, addr) in [(0, 100), (1, 200)] {
        let work = WorkSegment {
            addr,
            len_bytes: 5,
            operation: SEND,
            segment,
            segments: 2,
            ..WorkSegment::default()
        };
        scene.post(B, work);
    }
    scene.poll(A, 1, 10, RECEIVED);
    scene.send(A, 1, 1);
    let moved = scene.moved();
    let places: Vec<_> = moved.iter().map(|m| (m.addr, m.position, m.len_bytes)).collect();
    assert_eq!(places, [(100, 0, 5), (200, 5, 5), (500, 0, 6), (600, 6, 4), (1, 0, 1)]);
    assert!(moved[..4].iter().all(|m| m.stream == moved[0].stream));
    assert_ne!(moved[4].stream, moved[0].stream);
}

#[test]
fn receives_of_a_shared_queue_are_told_by_their_numbers() {
    let mut scene = Scene::new();
    scene.connect(77);
    for (number, addr) in [(1, 500), (2, 600)] {
        let work = WorkSegment {
            queue: 77,
            number,
            addr,
            len_bytes: 10,
            segments: 1,
            receive: true,
            shared: true,
            ..WorkSegment::default()
        };
        scene.take(B.0, 1, Body::Work(work));
    }
    scene.send(A, 100, 8);
    scene.poll(B, 2, 8, RECEIVED);
    let moved = scene.moved();
    assert_eq!((moved[1].addr, moved[1].stream), (600, moved[0].stream));
}

#[test]
fn whatever_may_have_hidden_a_request_takes_the_order_until_it_is_set_up_anew() {
    let spoil: [fn(&mut Scene); 7] = [
        |scene| scene.pairs.lose(Some(A.0), scene.time_ns),
        |scene| scene.pairs.lose(None, scene.time_ns),
        |scene| scene.pairs.begin(scene.time_ns, Vec::new()),
        |scene| {
            let context = CallContext::default();
            scene.take(
                A.0,
                1,
                Body::Completion {
                    number: 1,
                    queue: A.1,
                    len_bytes: 0,
                    operation: 0,
                    status: 5,
                    took_ns: 0,
                    idle_ns: 0,
                    context,
                },
            );
        },
        // Two threads post at the same moment.
        |scene| {
            scene.send(A, 1, 1);
            let work = WorkSegment {
                queue: A.1,
                operation: SEND,
                segments: 1,
                took_ns: 11,
                len_bytes: 1,
                ..WorkSegment::default()
            };
            scene.take(A.0, 2, Body::Work(work));
        },
        // A receive was taken out of turn.
        |scene| {
            scene.post_receive(A, 1, 5);
            scene.post_receive(A, 2, 6);
            scene.poll(A, 2, 1, RECEIVED);
        },
        // Of which queue pair something has completed is not known.
        |scene| scene.poll((A.0, 0), 2, 1, RECEIVED),
    ];
    for (case, spoil) in spoil.into_iter().enumerate() {
        let mut scene = Scene::connected();
        spoil(&mut scene);
        scene.moved();
        scene.send(A, 100, 8);
        assert_eq!(scene.moved()[0].stream, 0, "case {case}");
        scene.connect(0);
        scene.send(A, 100, 8);
        assert_ne!(scene.moved()[0].stream, 0, "case {case}");
    }
}

#[test]
fn what_was_set_up_before_probes_were_there_is_in_no_stream_but_its_ends_are_known() {
    let mut scene = Scene::new();
    scene.pairs.begin(1000, Vec::new());
    scene.connect(0);
    scene.send(A, 100, 8);
    assert_eq!(scene.moved()[0].stream, 0);
    let work = WorkSegment { addr: 1, remote: 2, len_bytes: 3, segments: 1, ..WorkSegment::default() };
    scene.post(A, work);
    assert!(matches!(scene.made[..], [Body::Remote { addr: 1, remote: 2, len_bytes: 3, write: true, .. }]));
}

impl Scene {
    /// Both ends were connected before, and are told of now.
    fn found() -> Self {
        let mut scene = Self::new();
        for (own, peer, device, address) in [(A, B, 1, AWAY), (B, A, 2, HOME)] {
            let change = QueueChange {
                address,
                queue: own.1,
                peer: peer.1,
                state: state::FOUND_CONNECTED,
                transport: RELIABLE_CONNECTED,
                port: 1,
                index: 3,
                is_global: true,
                device: [device, 0],
                ..QueueChange::default()
            };
            scene.take(own.0, 1, Body::Queue(change));
        }
        scene
    }

    fn wait(&mut self, ns: u64) -> u64 {
        self.time_ns += ns;
        self.time_ns
    }

    /// A sends so much, as request `number`.
    fn send_numbered(&mut self, number: u64, addr: u64, len_bytes: u32) {
        let work =
            WorkSegment { addr, number, len_bytes, operation: SEND, segments: 1, ..WorkSegment::default() };
        self.post(A, work);
    }

    /// B takes a message; it had found nothing at a moment.
    fn take_after(&mut self, idle_at_ns: u64, number: u64, len_bytes: u32) {
        let idle_ns = (self.time_ns + 10 - idle_at_ns) as u32;
        let context = CallContext::default();
        let (queue, operation, status, took_ns) = (B.1, RECEIVED, 0, 1);
        let body =
            Body::Completion { number, queue, len_bytes, operation, status, took_ns, idle_ns, context };
        self.take(B.0, 1, body);
    }

    /// A has sent and B has taken, each something else than the other one was seen to.
    fn found_at_work() -> Self {
        let mut scene = Self::found();
        for number in 100..108 {
            scene.send_numbered(number, 100, 8);
            scene.poll(A, number, 0, 0);
        }
        scene.send_numbered(1, 100, 8);
        scene.send_numbered(2, 100, 8);
        scene.take_after(scene.time_ns - 5, 100, 70);
        scene.moved();
        scene
    }
}

/// All of A's requests have completed; B finds nothing when some time has passed.
fn nothing_under_way(scene: &mut Scene, number: u64, later_ns: u64) -> u64 {
    scene.poll(A, number, 0, 0);
    let idle_at_ns = scene.wait(later_ns);
    scene.wait(10);
    idle_at_ns
}

#[test]
fn ends_that_were_connected_before_find_each_other_when_nothing_is_under_way() {
    let mut scene = Scene::found_at_work();
    let idle_at_ns = nothing_under_way(&mut scene, 2, 50_000);
    scene.send_numbered(3, 300, 8);
    scene.send_numbered(4, 400, 9);
    scene.post_receive(B, 30, 3000);
    scene.post_receive(B, 40, 4000);
    scene.take_after(idle_at_ns, 30, 8);
    scene.take_after(idle_at_ns, 40, 9);
    // What was sent before they had is in no stream.
    assert!(scene.moved().iter().all(|moved| moved.stream == 0));
    scene.send_numbered(5, 500, 7);
    scene.send_numbered(6, 600, 6);
    scene.post_receive(B, 50, 5000);
    scene.post_receive(B, 60, 6000);
    scene.take_after(idle_at_ns, 50, 7);
    scene.take_after(idle_at_ns, 60, 6);
    let moved = scene.moved();
    let at = |of: &Moved| (of.receive, of.addr, of.position, of.len_bytes);
    let [sent, sent_too, taken, taken_too] = moved[..] else { panic!("{moved:?}") };
    assert_eq!(at(&taken), (true, 5000, sent.position, 7));
    assert_eq!(at(&taken_too), (true, 6000, sent_too.position, 6));
    assert!(moved.iter().all(|of| of.stream != 0 && of.stream == sent.stream), "{moved:?}");
}

#[test]
fn no_other_moment_tells_where_ends_are_that_were_connected_before() {
    type Case = (&'static str, fn(&mut Scene) -> u64);
    let cases: [Case; 7] = [
        ("the completion is too fresh", |scene| nothing_under_way(scene, 2, 19_000)),
        ("not all have completed", |scene| nothing_under_way(scene, 1, 50_000)),
        ("more was posted before", |scene| {
            let idle_at_ns = nothing_under_way(scene, 2, 50_000);
            scene.send_numbered(9, 100, 8);
            scene.wait(idle_at_ns)
        }),
        ("requests have no numbers of their own", |scene| {
            scene.send_numbered(7, 100, 8);
            scene.send_numbered(7, 100, 8);
            scene.poll(A, 7, 0, 0);
            nothing_under_way(scene, 7, 50_000)
        }),
        ("it may have been a request of before that has the same number", |scene| {
            *scene = Scene::found();
            scene.send_numbered(2, 100, 8);
            nothing_under_way(scene, 2, 50_000)
        }),
        ("something was lost", |scene| {
            let idle_at_ns = nothing_under_way(scene, 2, 50_000);
            scene.pairs.lose(Some(A.0), scene.time_ns);
            idle_at_ns
        }),
        ("nothing is known of when there was nothing", |scene| {
            nothing_under_way(scene, 2, 50_000);
            u64::MAX
        }),
    ];
    for (case, moment) in cases {
        let mut scene = Scene::found_at_work();
        let idle_at_ns = moment(&mut scene);
        for number in 10..20 {
            scene.send_numbered(number, 300, 8);
            match idle_at_ns {
                u64::MAX => scene.poll(B, number, 8, RECEIVED),
                _ => scene.take_after(idle_at_ns, number, 8),
            }
        }
        assert!(scene.moved().iter().all(|moved| moved.stream == 0), "{case}");
    }
}

/// A connection between two programs, of which a tracer sees what happens from some moment on.
struct Connection {
    scene: Scene,
    is_watched: bool,
    /// When each message that was sent is there, and when its receiver may see it.
    arrivals: Vec<(u64, u64)>,
    completed: usize,
    taken: usize,
    idle_at_ns: u64,
}

const LENGTHS: [u32; 2] = [8, 9];
/// Each so many requests one asks for a completion.
const SIGNALED_EACH: u64 = 2;
/// A number is used again when the request that had it has completed.
const NUMBERS: u64 = 16;
const MOST_UNDER_WAY: usize = NUMBERS as usize;

impl Connection {
    fn send(&mut self, delay_ns: u64, late_ns: u64) {
        let number = self.arrivals.len() as u64;
        if number as usize - self.completed >= MOST_UNDER_WAY {
            return;
        }
        if self.is_watched {
            self.scene.send_numbered(number % NUMBERS, 1000 + number, LENGTHS[number as usize % 2]);
        }
        let now_ns = self.scene.wait(10);
        // In the order in which they were sent.
        let (arrived_ns, seen_ns) = self.arrivals.last().copied().unwrap_or_default();
        let arrives_ns = arrived_ns.max(now_ns + delay_ns);
        self.arrivals.push((arrives_ns, seen_ns.max(arrives_ns + late_ns)));
    }

    /// A completion stands for many.
    fn complete(&mut self) {
        let now_ns = self.scene.wait(1);
        let end = self.completed + SIGNALED_EACH as usize;
        if self.arrivals.get(end - 1).is_none_or(|(arrives_ns, _)| *arrives_ns >= now_ns) {
            return;
        }
        if self.is_watched {
            self.scene.poll(A, (end as u64 - 1) % NUMBERS, 0, 0);
        }
        self.completed = end;
    }

    fn receive(&mut self) {
        let begin_ns = self.scene.wait(1);
        let number = self.taken as u64;
        if self.arrivals.get(self.taken).is_none_or(|(_, seen_ns)| *seen_ns > begin_ns) {
            self.idle_at_ns = begin_ns;
            return;
        }
        self.taken += 1;
        if self.is_watched {
            self.scene.post_receive(B, number, 1000 + number);
            self.scene.take_after(self.idle_at_ns, number, LENGTHS[number as usize % 2]);
        }
    }
}

proptest! {
    /// Sent and taken are one message, whatever was under way when the tracer came; its address says which.
    #[test]
    fn what_is_linked_between_ends_that_were_connected_before_is_what_was_sent(
        seen_from in 0_usize..60,
        steps in prop::collection::vec((0_u8..5, 0_u64..40_000, 0_u64..15_000, 0_u64..60_000), 60..1000),
    ) {
        let mut connection = Connection {
            scene: Scene::new(), is_watched: false, arrivals: Vec::new(), completed: 0, taken: 0, idle_at_ns: 1,
        };
        for (step, (what, delay_ns, late_ns, wait_ns)) in steps.into_iter().enumerate() {
            if step == seen_from {
                let time_ns = connection.scene.time_ns;
                connection.scene = Scene { time_ns, ..Scene::found() };
                connection.is_watched = true;
            }
            connection.scene.wait(if what == 4 { wait_ns } else { 0 });
            match what {
                0 => connection.send(delay_ns, late_ns),
                1 => connection.complete(),
                _ => connection.receive(),
            }
        }
        let moved = connection.scene.moved();
        let sent = moved.iter().filter(|of| of.stream != 0 && !of.receive);
        let sent: std::collections::HashMap<_, _> = sent.map(|of| ((of.stream, of.position), of.addr)).collect();
        for taken in moved.iter().filter(|of| of.stream != 0 && of.receive) {
            prop_assert_eq!(sent.get(&(taken.stream, taken.position)), Some(&taken.addr));
        }
    }
}

#[test]
fn a_receiver_follows_its_sender_no_longer_when_that_one_has_missed_something() {
    let mut scene = Scene::connected();
    scene.pairs.lose(Some(A.0), scene.time_ns);
    scene.send(A, 100, 8);
    scene.poll(B, 1, 8, RECEIVED);
    assert_eq!(scene.moved().iter().map(|moved| moved.stream).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn receives_without_numbers_of_their_own_say_nothing_of_where_they_are_if_some_were_posted_unseen() {
    let mut scene = Scene::found();
    scene.post_receive(B, 0, 500);
    scene.poll(B, 0, 8, RECEIVED);
    scene.post_receive(B, 0, 600);
    scene.poll(B, 0, 8, RECEIVED);
    assert_eq!(scene.moved().iter().map(|moved| moved.addr).collect::<Vec<_>>(), [500, 0]);
}

#[test]
fn a_receive_may_complete_before_it_is_told_that_it_was_posted() {
    let mut scene = Scene::connected();
    scene.poll(B, 1, 8, RECEIVED);
    let work = WorkSegment {
        addr: 500,
        number: 1,
        len_bytes: 10,
        segments: 1,
        took_ns: 15,
        receive: true,
        ..WorkSegment::default()
    };
    scene.post(B, work);
    scene.post_receive(B, 1, 600);
    scene.poll(B, 1, 4, RECEIVED);
    let moved = scene.moved();
    let places: Vec<_> = moved.iter().map(|m| (m.addr, m.position)).collect();
    assert_eq!(places, [(0, 0), (600, 9)], "where the first one went is not known");
}

/// Records of any kind whose numbers are few, so that they meet.
fn any_record() -> impl Strategy<Value = Body> {
    let few = 0_u64..6;
    let word = prop_oneof![4 => few.clone(), 1 => any::<u64>()];
    let context = CallContext::default();
    let work = (word.clone(), few.clone(), few.clone(), any::<[u8; 4]>(), any::<(u32, bool, bool)>())
        .prop_map(
            |(
                addr,
                number,
                queue,
                [operation, send_flags, segment, segments],
                (len_bytes, receive, shared),
            )| {
                Body::Work(WorkSegment {
                    addr,
                    number,
                    queue: queue as u32,
                    len_bytes,
                    operation: operation % 12,
                    send_flags,
                    segment: if segment < 200 { segment % 3 } else { segment },
                    segments: if segments < 200 { segments % 4 } else { segments },
                    took_ns: len_bytes,
                    receive,
                    shared,
                    ..WorkSegment::default()
                })
            },
        );
    let completion = (few.clone(), few.clone(), any::<u32>(), any::<(u8, bool, u32, u32)>()).prop_map(
        move |(number, queue, len_bytes, (operation, is_bad, took_ns, idle_ns))| Body::Completion {
            number,
            queue: queue as u32,
            len_bytes,
            operation: operation.into(),
            status: u32::from(is_bad && number == 0),
            took_ns,
            idle_ns,
            context,
        },
    );
    let queue = (few.clone(), few, word, any::<(u8, u8, u32, bool)>()).prop_map(
        |(queue, peer, address, (state, transport, psn, is_global))| {
            Body::Queue(QueueChange {
                address: [address; 2],
                queue: queue as u32,
                peer: peer as u32,
                state: state % 7,
                transport: if transport < 200 { RELIABLE_CONNECTED } else { transport },
                psn,
                is_global,
                shared: u32::from(psn % 3 == 0),
                ..QueueChange::default()
            })
        },
    );
    prop_oneof![6 => work, 4 => completion, 1 => queue]
}

proptest! {
    #[test]
    fn whatever_records_say_what_is_kept_is_counted_and_bounded(
        steps in prop::collection::vec((1_u32..4, 1_u32..3, any_record(), any::<u8>()), 0..300)
    ) {
        let mut scene = Scene::new();
        for (pid, tid, body, chance) in steps {
            scene.take(pid, tid, body);
            match chance {
                0 => scene.pairs.lose(Some(pid), scene.time_ns),
                1 => scene.pairs.forget_process(pid),
                2 => scene.pairs.begin(scene.time_ns, Vec::new()),
                _ => {}
            }
            scene.pairs.check();
        }
        (1..4).for_each(|pid| scene.pairs.forget_process(pid));
        scene.pairs.check();
        prop_assert_eq!(scene.pairs.kept(), 0);
    }
}

#[test]
fn what_never_completes_is_given_up_and_its_memory_is_no_others_any_more() {
    let mut scene = Scene::connected();
    let read =
        WorkSegment { operation: operation::RDMA_READ, len_bytes: 3, segments: 1, ..WorkSegment::default() };
    for number in 0..40_000 {
        scene.post(A, WorkSegment { number, addr: number, ..read });
        for segment in 1..4 {
            scene.post_receive(B, number, 5);
            let work = WorkSegment { number, segment, receive: true, ..read };
            scene.post(B, work);
        }
    }
    scene.pairs.check();
    let told = scene.moved();
    assert!(
        told.len() > 10_000 && told.iter().all(|moved| moved.receive && moved.stream == 0),
        "{}",
        told.len()
    );
    assert!(scene.pairs.kept() < 1 << 20);
}
