//! How small a tape is and how fast it is written and read, and how fast rings are merged,
//! on one core, with generated traffic of two sorts.
//!
//! `cargo run --release -p dmscope-analyzer --example tape_speed [RECORDS]`

use analyzer::input::Input;
use analyzer::sequencer::Sequencer;
use analyzer::tape::{Item, Reader, Writer};
use analyzer::wire::{Body, CallContext, Header, RawRecord, Record};

/// Small, fast and the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

/// A rank that exchanges halos: per neighbour a call, a copy out and a copy in, through slots of
/// a shared segment that it uses in turn.
struct Rank {
    pid: u32,
    step: u64,
    serial: u32,
    /// How often, in percent, addresses and lengths are arbitrary instead.
    noise_percent: u64,
}

impl Rank {
    fn next(&mut self, time_ns: u64, random: &mut Random) -> RawRecord {
        let neighbour = self.step / 3 % 6;
        let slot = self.step / 3 % 64;
        let phase = self.step % 3;
        self.step += 1;
        let base = 0x7f10_0000_0000 + u64::from(self.pid) * 0x1_0000_0000;
        let user = base + neighbour * 0x10_000;
        let shared = 0x7f80_0000_0000 + u64::from(self.pid) * 0x100_0000 + slot * 0x2000;
        let noise = if random.below(100) < self.noise_percent { random.below(1 << 20) } else { 0 };
        let header = |probe| Header { time_ns, pid: self.pid, tid: self.pid, probe };
        if phase == 0 {
            self.serial += 1;
            let args = [user + noise, 1024, 0x55_0000, neighbour, 7, 0x55_1000];
            let body = Body::Call { return_address: 0x40_1200 + neighbour * 16, args, nested: false };
            return Record { header: header(20 + neighbour as u32 % 2), body }.encode();
        }
        let context =
            CallContext { return_address: 0x40_1200 + neighbour * 16, probe: 20, serial: self.serial };
        let (dst, src) = if phase == 1 { (shared, user) } else { (user + 0x8000, shared + 0x1000) };
        let body = Body::Copy { dst: dst + noise, src, len_bytes: 4096 + noise, context };
        Record { header: header(3 + phase as u32), body }.encode()
    }
}

/// Records in order of time, with the ring (one a rank) that each comes from.
fn generate(records: usize, ranks: u32, noise_percent: u64) -> Vec<(u16, RawRecord)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all: Vec<_> =
        (0..ranks).map(|rank| Rank { pid: 4000 + rank, step: 0, serial: 0, noise_percent }).collect();
    let mut time_ns = 1_000_000_000;
    (0..records)
        .map(|_| {
            // About a million records a second, the most that a node is expected to write.
            time_ns += 500 + random.below(1_000);
            let rank = random.below(u64::from(ranks));
            (rank as u16, all[rank as usize].next(time_ns, &mut random))
        })
        .collect()
}

/// Processor time that this thread has had: unlike the clock, it does not count other programs.
fn cpu_time_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    schedstat.split(' ').next().and_then(|first| first.parse().ok()).expect("nanoseconds come first")
}

fn rate(records: usize, since_ns: u64) -> f64 {
    records as f64 / (cpu_time_ns() - since_ns) as f64 * 1e3
}

fn measure_tape(name: &str, records: &[(u16, RawRecord)]) {
    let begin = cpu_time_ns();
    let mut writer = Writer::new(Vec::new());
    for (_, record) in records {
        writer.push(&Input::Record(*record)).expect("memory takes everything");
    }
    let tape = writer.finish().expect("memory takes everything");
    let written = rate(records.len(), begin);

    let begin = cpu_time_ns();
    let mut sum = 0_u64;
    let mut given = 0;
    for item in Reader::new(&tape[..]).expect("a whole tape") {
        if let Item::Input(Input::Record(record)) = item.expect("memory can be read") {
            sum = sum.wrapping_add(record.words()[3]);
            given += 1;
        }
    }
    let read = rate(records.len(), begin);
    assert_eq!(given, records.len());
    std::hint::black_box(sum);
    let bytes = tape.len() as f64 / records.len() as f64;
    println!("{name}: {bytes:.2} bytes a record, {written:.1} M records/s written, {read:.1} read");
}

fn measure_sequencer(name: &str, records: &[(u16, RawRecord)]) {
    let begin = cpu_time_ns();
    let mut sequencer = Sequencer::default();
    let mut given = 0_u64;
    for batch in records.chunks(8192) {
        for (ring, record) in batch {
            sequencer.push(*ring, *record);
        }
        let now_ns = batch.last().map_or(0, |(_, record)| record.time_ns());
        sequencer.advance(now_ns, |input| given += u64::from(matches!(input, Input::Record(_))));
    }
    sequencer.finish(|input| given += u64::from(matches!(input, Input::Record(_))));
    assert_eq!(given, records.len() as u64);
    println!("{name}: {:.1} M records/s in order", rate(records.len(), begin));
}

fn main() {
    let records = std::env::args().nth(1).map_or(2_000_000, |arg| arg.parse().expect("a number of records"));
    for ranks in [4, 64] {
        for noise_percent in [0, 20] {
            let traffic = generate(records, ranks, noise_percent);
            let name = format!("{ranks} ranks, {noise_percent}% irregular");
            measure_tape(&name, &traffic);
            measure_sequencer(&name, &traffic);
        }
    }
}
