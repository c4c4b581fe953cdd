//! Programs and libraries of any bytes, planned together: there is a plan, and each of its probes is in one of them.

#![no_main]

use analyzer::wire::FileId;
use dmscope::plan::{BoundCopy, FileImage, PlanFacts, PlanOptions, Returns, code, plan};
use dmscope_fuzz::bytes::Bytes;
use dmscope_fuzz::elf_file::contents;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

const PATHS: [&str; 5] =
    ["/x/job", "/x/libmpi.so.40", "/x/libmpich.so.12", "/usr/lib/libc.so.6", "/x/libopen-pal.so.40"];

fn run(bytes: &[u8]) {
    let Some((head, files)) = bytes.split_at_checked(24) else { return };
    let mut head = Bytes(head);
    let cut = files.len() * usize::from(head.next()) / 255;
    let id = |n: usize| FileId { dev: 1, inode: n as u64 + 1 };
    let image = |(n, bytes): (usize, &[u8])| {
        let path = (*head.of(&PATHS)).to_owned();
        let contents = contents(bytes)?;
        Some(FileImage { id: id(n), path, is_program: head.next() & 1 == 0, contents })
    };
    let files: Vec<FileImage> =
        [&files[..cut], &files[cut..]].into_iter().enumerate().filter_map(image).collect();
    let bound_copy = Some(BoundCopy { file: id(0), offset_bytes: u64::from(head.next()) << 4 });
    let facts = PlanFacts { files, bound_copy, verbs: Vec::new(), unreadable: Vec::new() };
    let options = PlanOptions {
        libraries: vec!["*x*".to_owned()],
        local_calls: head.next() & 1 == 0,
        returns: *head.of(&[Returns::None, Returns::All]),
        ..PlanOptions::default()
    };
    let plan = plan(&facts, &options, u32::from(head.next())).expect("a pattern that can be read");
    let known = |file: FileId| facts.files.iter().any(|image| image.id == file);
    assert!(plan.probes.iter().all(|probe| known(probe.file)));
    let _ = code::probed_instructions(&plan.probes, &facts.files);
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
