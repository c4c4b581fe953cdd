//! The planner on files that a compiler made: all ways in which compilers and linkers let code
//! call memcpy.

use std::path::{Path, PathBuf};
use std::process::Command;

use analyzer::plan::{Plan, ProbeClass, ProbePlace};
use analyzer::wire::FileId;
use dmscope::elf::{self, Contents, ElfFacts, SiteKind, scan_copies};
use dmscope::plan::{FileImage, PlanFacts, PlanOptions, plan};
use tempfile::TempDir;

/// Runs the C compiler; every option it is given must be known to it.
fn compile(folder: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&input, source).unwrap();
    let result = Command::new("cc")
        .args(["-O2", "-fno-builtin-malloc", "-o"])
        .args([&output, &input])
        .args(options)
        .current_dir(folder)
        .output()
        .expect("a C compiler (cc) is needed");
    assert!(result.status.success(), "cc {options:?}: {}", String::from_utf8_lossy(&result.stderr));
    output
}

const COPIES: &str = r#"
#include <string.h>
void plain(char *d, const char *s, size_t n) { memcpy(d, s, n); d[0] = 1; }
void *tail(char *d, const char *s, size_t n) { return memmove(d, s, n); }
void twice(char *d, const char *s, size_t n) { memcpy(d, s, n); memmove(d + n, s, n); d[1] = 0; }
int none(int a) { return a + 1; }
"#;

/// (function that holds the site, function called, kind), in order of address.
fn sites(elf: &ElfFacts<'_>) -> Vec<(String, &'static str, SiteKind)> {
    let name = |start| elf.functions.at(start).map_or("?", |f| f.name).to_owned();
    let mut sites: Vec<_> =
        scan_copies(elf).sites.iter().map(|s| (name(s.within), s.function, s.kind)).collect();
    sites.sort_by(|a, b| a.0.cmp(&b.0));
    sites
}

fn expected(call: SiteKind, jump: SiteKind) -> Vec<(String, &'static str, SiteKind)> {
    vec![
        ("plain".into(), "memcpy", call),
        ("tail".into(), "memmove", jump),
        ("twice".into(), "memcpy", call),
        ("twice".into(), "memmove", call),
    ]
}

fn check_library(options: &[&str], call: SiteKind, jump: SiteKind) {
    let folder = TempDir::new().unwrap();
    let options = [&["-shared", "-fPIC", "-U_FORTIFY_SOURCE"], options].concat();
    let contents = contents(&compile(folder.path(), "libcopies.so", COPIES, &options));
    assert_eq!(sites(&elf::parse(&contents).unwrap()), expected(call, jump), "{options:?}");
}

#[test]
fn calls_through_the_linkage_table_are_found() {
    check_library(&[], SiteKind::Call, SiteKind::TailJump);
}

#[test]
fn a_stripped_library_shows_the_same_sites() {
    check_library(&["-s"], SiteKind::Call, SiteKind::TailJump);
}

#[test]
fn early_binding_without_a_lazy_table_is_understood() {
    check_library(&["-Wl,-z,now"], SiteKind::Call, SiteKind::TailJump);
}

#[test]
fn stubs_with_landing_pads_are_understood() {
    check_library(&["-fcf-protection=full", "-Wl,-z,ibtplt"], SiteKind::Call, SiteKind::TailJump);
}

#[test]
fn calls_without_a_linkage_table_are_found() {
    check_library(&["-fno-plt"], SiteKind::IndirectCall, SiteKind::IndirectJump);
}

#[test]
fn a_static_program_calls_its_own_copy_function() {
    let folder = TempDir::new().unwrap();
    let main = format!(
        "{COPIES}\nint main(int n, char **v) {{ plain(v[0], v[1], n); tail(v[0], v[1], n); twice(v[0], v[1], n); return none(n); }}"
    );
    let options = ["-static", "-fno-inline", "-fno-ipa-cp", "-U_FORTIFY_SOURCE"];
    let contents = contents(&compile(folder.path(), "static", &main, &options));
    let elf = elf::parse(&contents).unwrap();
    assert_eq!(elf.kind, elf::ElfKind::StaticProgram);
    let own: Vec<_> = sites(&elf)
        .into_iter()
        .filter(|(within, ..)| ["plain", "tail", "twice"].contains(&within.as_str()))
        .collect();
    assert_eq!(own, expected(SiteKind::Call, SiteKind::TailJump));
}

#[test]
fn an_inline_copy_is_listed_and_not_probed() {
    let source = r#"void inline_copy(char *d, const char *s, unsigned long n) {
        __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory"); }"#;
    let folder = TempDir::new().unwrap();
    let contents = contents(&compile(folder.path(), "libinline.so", source, &["-shared", "-fPIC"]));
    let scan = scan_copies(&elf::parse(&contents).unwrap());
    assert_eq!((scan.sites.len(), scan.unseen.len()), (0, 1));
}

/// A small MPI library: aliases, a polling call, and a tool's second name.
const FAKE_MPI: &str = r#"
#include <string.h>
extern void fake_progress(void);
#define CALL(name, parameters, body) int P##name parameters body int name parameters __attribute__((alias("P" #name)));
static char segment[4096]; static volatile int arrived;
CALL(MPI_Init, (int *c, char ***v), { fake_progress(); return 0; })
CALL(MPI_Send, (const void *b, int n, void *t, int to, int tag, void *comm), { fake_progress(); memcpy(segment, b, n); arrived = 1; return 0; })
CALL(MPI_Test, (void *request, int *flag, void *status), { if (arrived) { *flag = 1; fake_progress(); return 0; } *flag = 0; return 0; })
CALL(MPI_Testsome, (int n, void *r, int *count, int *which, void *s), { fake_progress(); *count = arrived; return 0; })
CALL(MPI_Comm_rank, (void *comm, int *rank), { fake_progress(); *rank = 0; return 0; })
"#;

fn contents(path: &Path) -> Contents {
    std::fs::read(path).unwrap().into()
}

fn image(path: &Path, inode: u64, is_program: bool) -> FileImage {
    let id = FileId { dev: 1, inode };
    FileImage { id, path: path.display().to_string(), is_program, contents: contents(path) }
}

/// A job of a program, a messaging library, a library that has nothing to do with messages, and MPI.
fn job(folder: &Path) -> PlanFacts {
    let shared = ["-shared", "-fPIC", "-U_FORTIFY_SOURCE"];
    let mpi = compile(folder, "libmpi.so.40", FAKE_MPI, &shared);
    let messages = "#include <string.h>\nextern int MPI_Send();\nvoid send_it(char *d, char *s, unsigned long n) { memcpy(d, s, n); MPI_Send(d); }";
    let messages = compile(folder, "libmessages.so", messages, &shared);
    let other = compile(folder, "libother.so", COPIES, &[&shared[..], &["-fno-plt"]].concat());
    let program = compile(
        folder,
        "program",
        "#include <string.h>\nint main(int n, char **v) { memcpy(v[0], v[1], n); v[0][0] = 0; return 0; }",
        &["-U_FORTIFY_SOURCE"],
    );
    let files = vec![
        image(&program, 1, true),
        image(&messages, 2, false),
        image(&other, 3, false),
        image(&mpi, 4, false),
    ];
    PlanFacts { files, ..PlanFacts::default() }
}

fn planned(facts: &PlanFacts, options: &PlanOptions) -> Plan {
    plan(facts, options, 1).unwrap()
}

/// (inode, class, function) of all probes.
fn summary(plan: &Plan) -> Vec<(u64, ProbeClass, &str)> {
    let mut all: Vec<_> = plan.probes.iter().map(|p| (p.file.inode, p.class, p.function.as_str())).collect();
    all.sort_unstable();
    all
}

#[test]
fn copies_are_watched_where_messages_are_handled_and_calls_where_mpi_is() {
    let folder = TempDir::new().unwrap();
    let plan = planned(&job(folder.path()), &PlanOptions::default());
    assert_eq!(
        summary(&plan),
        [
            (1, ProbeClass::Copy, "memcpy"),
            (2, ProbeClass::Copy, "memcpy"),
            (4, ProbeClass::Copy, "memcpy"),
            (4, ProbeClass::Call, "MPI_Init"),
            (4, ProbeClass::Call, "MPI_Send"),
            (4, ProbeClass::PollSuccess, "MPI_Test"),
            (4, ProbeClass::PollReturn, "MPI_Testsome"),
        ]
    );
    assert!(plan.probes.iter().all(|p| p.place != ProbePlace::SingleStep));
    let testsome = plan.probes.iter().find(|p| p.function == "MPI_Testsome").unwrap();
    assert_eq!((testsome.argument, testsome.stack_bytes), (2, 0));
    assert!(testsome.reason.contains("computed"), "{}", testsome.reason);
    assert!(plan.left_out.iter().any(|l| l.what.contains("move nothing")));
}

#[test]
fn probes_are_numbered_from_the_first_id_in_order_of_place() {
    let folder = TempDir::new().unwrap();
    let facts = job(folder.path());
    let plan = plan(&facts, &PlanOptions::default(), 100).unwrap();
    let ids: Vec<u32> = plan.probes.iter().map(|p| p.id).collect();
    assert_eq!(ids, (100..100 + ids.len() as u32).collect::<Vec<_>>());
    assert!(plan.probes.is_sorted_by_key(|p| (p.file.inode, p.offset_bytes)));
    assert_eq!(plan, dmscope::plan::plan(&facts, &PlanOptions::default(), 100).unwrap());
}

#[test]
fn a_named_library_is_watched_as_far_as_it_is_cheap() {
    let folder = TempDir::new().unwrap();
    let options = PlanOptions { libraries: vec!["libother*".into()], ..PlanOptions::default() };
    let plan = planned(&job(folder.path()), &options);
    let watched = plan.probes.iter().filter(|p| p.file.inode == 3).count();
    let left_out = plan.left_out.iter().filter(|l| l.file.inode == 3).count();
    assert_eq!(watched + left_out, 4);
    assert!(watched >= 1, "the call behind a push has a cheap place: {:?}", plan.left_out);
    assert!(plan.probes.iter().filter(|p| p.file.inode == 3).all(|p| p.site_offset_bytes > p.offset_bytes));
}

#[test]
fn a_library_that_comes_later_has_a_plan_of_its_own() {
    let folder = TempDir::new().unwrap();
    let mut facts = job(folder.path());
    let whole = planned(&facts, &PlanOptions::default());
    facts.files.retain(|f| f.id.inode == 2);
    let later = planned(&facts, &PlanOptions::default());
    let of_file = |plan: &Plan| {
        plan.probes.iter().filter(|p| p.file.inode == 2).map(|p| p.offset_bytes).collect::<Vec<_>>()
    };
    assert_eq!(of_file(&later), of_file(&whole));
    assert_eq!(later.files.len(), 1);
}

#[test]
fn what_cannot_be_read_is_left_out_by_name() {
    let folder = TempDir::new().unwrap();
    let mut facts = job(folder.path());
    facts.files[2].contents = b"#!/bin/sh\n".to_vec().into();
    let mut half = std::fs::read(&facts.files[1].path).unwrap();
    half.truncate(3_000);
    facts.files[1].contents = half.into();
    facts.unreadable.push(("/lib/gone.so".into(), "gone".into()));
    let plan = planned(&facts, &PlanOptions::default());
    assert!(
        plan.left_out
            .iter()
            .any(|l| l.what.ends_with("libother.so") && l.reason.contains("not an x86-64 ELF"))
    );
    assert!(plan.left_out.iter().any(|l| l.what == "/lib/gone.so"));
    assert!(plan.probes.iter().any(|p| p.function == "MPI_Send"));
}

#[test]
fn a_pattern_that_is_none_is_an_error() {
    let options = PlanOptions { libraries: vec!["lib[".into()], ..PlanOptions::default() };
    assert!(plan(&PlanFacts::default(), &options, 1).unwrap_err().to_string().contains("lib["));
}

#[test]
fn what_packs_is_seen_as_one_movement_and_not_copy_by_copy() {
    const CONVERTOR: &str = r#"
    #include <string.h>
    struct convertor { char other[0x48]; char *base; void *stack;
                       int (*advance)(struct convertor *, char **, unsigned *, unsigned long *); };
    int opal_convertor_pack(struct convertor *c, char **iov, unsigned *n, unsigned long *size) {
        if (*n) { memcpy(iov[0], c->base, *size); *n = 0; return 1; }
        return c->advance(c, iov, n, size);
    }
    int opal_generic_simple_pack(struct convertor *c, char **iov, unsigned *n, unsigned long *size) {
        memcpy(iov[0], c->base, *size); *n = 1; return 0;
    }"#;
    let folder = TempDir::new().unwrap();
    let library =
        compile(folder.path(), "libopen-pal.so.40", CONVERTOR, &["-shared", "-fPIC", "-U_FORTIFY_SOURCE"]);
    let plan = planned(
        &PlanFacts { files: vec![image(&library, 1, false)], ..PlanFacts::default() },
        &PlanOptions::default(),
    );
    assert_eq!(
        summary(&plan),
        [(1, ProbeClass::Copy, "memcpy"), (1, ProbeClass::Pack, "opal_generic_simple_pack")]
    );
    let pack = plan.probes.iter().find(|p| p.class == ProbeClass::Pack).unwrap();
    assert_eq!(pack.argument, 0x48);
    assert!(plan.left_out.iter().any(|l| l.what == "memcpy" && l.reason.contains("packs or unpacks")));
}

#[test]
fn errors_are_seen_where_the_library_is_told_of_them_and_the_end_of_mpi_at_its_return() {
    const MPI: &str = r#"
    int ompi_mpi_init(void) { return 0; }
    __attribute__((noinline)) int work(int a) { __asm__ volatile(""); return a + 1; }
    int PMPI_Init(int a) { return work(a); }
    int PMPI_Send(int a) { return work(a + 2) + work(a); }
    int PMPI_Finalize(int a) { return work(a + 3) + work(a); }
    int ompi_errhandler_invoke(void *h, void *o, int type, int code, const char *name)
    {
        volatile char room[64];
        room[code & 63] = name[0];
        return room[type & 63];
    }
    int MPIR_Err_return_comm(void *comm, const char *name, int code) { return work(code + name[0]); }
    int MPIR_Err_other(void) { return 0; }"#;
    let folder = TempDir::new().unwrap();
    let library = compile(folder.path(), "libmpi.so.40", MPI, &["-shared", "-fPIC"]);
    let facts = PlanFacts { files: vec![image(&library, 1, false)], ..PlanFacts::default() };
    let plan = planned(&facts, &PlanOptions::default());
    let errors = plan.probes.iter().filter(|p| p.class == ProbeClass::Error);
    let mut forms: Vec<_> = errors
        .inspect(|p| assert_eq!((p.offset_bytes, p.stack_bytes), (p.site_offset_bytes, 0)))
        .map(|p| (p.function.as_str(), p.argument))
        .collect();
    forms.sort_unstable();
    // As in errors.h.
    assert_eq!(forms, [("MPIR_Err_return_comm", 2), ("ompi_errhandler_invoke", 0)]);
    let class = |name: &str| plan.probes.iter().find(|p| p.function == name).map(|p| p.class);
    assert_eq!(class("MPI_Finalize"), Some(ProbeClass::CallResults));
    assert_eq!(class("MPI_Send"), Some(ProbeClass::Call));
}
