//! Operations that name memory of the other end: writes, reads, atomic operations.

use super::*;

#[test]
fn an_operation_names_the_process_that_has_the_other_end() {
    let mut scene = Scene::connected();
    let [a, b] = scene.endpoints();
    let write = WorkSegment { addr: 1, remote: 2, len_bytes: 3, segments: 1, ..WorkSegment::default() };
    scene.post(A, write);
    scene.post(B, write);
    let peers: Vec<u64> =
        scene.made.iter().map(|body| if let Body::Remote { peer, .. } = body { *peer } else { 0 }).collect();
    assert_eq!(peers, [b.0, a.0]);
}

impl Scene {
    /// What was told last of each end: its name, and the streams to it and from it.
    fn endpoints(&mut self) -> [(u64, u64, u64); 2] {
        let mut told: Vec<(u64, u64, u64)> = Vec::new();
        for body in self.made.drain(..) {
            if let Body::Endpoint { name, incoming, outgoing } = body {
                told.retain(|known| known.0 != name);
                told.push((name, incoming, outgoing));
            }
        }
        told.try_into().expect("two ends")
    }
}

#[test]
fn what_comes_to_one_end_is_what_goes_from_the_other() {
    let [a, b] = Scene::connected().endpoints();
    assert_eq!((a.1, a.2), (b.2, b.1));
    assert!(a.1 != a.2 && a.1 != 0 && a.2 != 0);
}

#[test]
fn operations_say_after_which_messages_they_were_posted() {
    let mut scene = Scene::connected();
    let [a, _] = scene.endpoints();
    let read = WorkSegment {
        number: 7,
        operation: operation::RDMA_READ,
        send_flags: SIGNALED,
        len_bytes: 3,
        segments: 1,
        ..WorkSegment::default()
    };
    scene.send(A, 100, 8);
    scene.post(A, read);
    scene.send(A, 100, 8);
    let write = WorkSegment { addr: 1, remote: 2, len_bytes: 3, segments: 1, ..WorkSegment::default() };
    scene.post(A, write);
    scene.poll(A, 7, 0, 0);
    let posted = scene.made.iter().filter_map(|body| match body {
        Body::Remote { stream, position, write, .. } => Some((*stream, *position, *write)),
        _ => None,
    });
    assert_eq!(posted.collect::<Vec<_>>(), [(a.2, 18, true), (a.2, 9, false)]);
    scene.pairs.lose(None, scene.time_ns);
    scene.made.clear();
    scene.post(A, write);
    assert!(matches!(scene.made[..], [Body::Remote { stream: 0, .. }]), "{:?}", scene.made);
}

#[test]
fn a_read_has_happened_when_it_or_what_follows_it_has_completed() {
    let mut scene = Scene::connected();
    scene.made.clear();
    let read = WorkSegment {
        addr: 1,
        number: 7,
        remote: 2,
        len_bytes: 3,
        operation: operation::RDMA_READ,
        segments: 1,
        ..WorkSegment::default()
    };
    scene.post(A, read);
    let atomic = WorkSegment { number: 8, operation: operation::FETCH_AND_ADD, len_bytes: 8, ..read };
    scene.post(A, atomic);
    let last = WorkSegment { number: 9, operation: SEND, send_flags: SIGNALED, len_bytes: 0, ..read };
    scene.post(A, last);
    scene.made.retain(|body| !matches!(body, Body::Stream { .. }));
    assert_eq!(scene.made, []);
    scene.poll(A, 9, 0, 0);
    let read = |body: &Body| matches!(body, Body::Remote { write: false, atomic: false, len_bytes: 3, .. });
    let atomic = |body: &Body| matches!(body, Body::Remote { write: false, atomic: true, len_bytes: 8, .. });
    assert!(read(&scene.made[0]) && atomic(&scene.made[1]) && scene.made.len() == 2, "{:?}", scene.made);
}

#[test]
fn a_write_that_tells_the_other_end_takes_a_receive_and_moves_nothing_into_it() {
    let mut scene = Scene::connected();
    scene.post_receive(B, 1, 500);
    scene.post_receive(B, 2, 600);
    let write = WorkSegment {
        addr: 1,
        remote: 2,
        len_bytes: 3,
        operation: operation::RDMA_WRITE_WITH_IMMEDIATE,
        segments: 1,
        ..WorkSegment::default()
    };
    scene.post(A, write);
    scene.send(A, 100, 8);
    scene.poll(B, 1, 3, RECEIVED_WRITE);
    scene.poll(B, 2, 8, RECEIVED);
    let moved = scene.moved();
    assert_eq!(moved.len(), 2);
    assert_eq!(
        (moved[1].addr, moved[1].stream, moved[1].position),
        (600, moved[0].stream, moved[0].position)
    );
}

#[test]
fn a_read_of_a_queue_pair_that_was_set_up_unseen_has_come_from_nobody_knows_where() {
    let mut scene = Scene::new();
    let read = WorkSegment {
        addr: 1,
        number: 7,
        remote: 2,
        len_bytes: 3,
        operation: operation::RDMA_READ,
        segments: 1,
        ..WorkSegment::default()
    };
    // So has one that may have completed, where it is not known what has.
    for queue in [A, (A.0, 0)] {
        scene.post(A, read);
        assert_eq!(scene.made, []);
        scene.poll(queue, 7, 0, 0);
        assert_eq!(scene.moved(), [Moved { receive: true, addr: 1, stream: 0, position: 0, len_bytes: 3 }]);
    }
}
