//! Facts for the plan of a job that is not running yet: its program and the files that it
//! will load, found as ld.so and the MPI library will find them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analyzer::wire::FileId;

use super::files::open_path;
use super::gather::{AttachPoint, Gathered, count_strangers};
use super::jobs::is_launcher;
use super::parsing::{FileParser, FoundFile};
use super::sudo::user_of_jobs;
use super::verbs_devices::{DeviceTables, device_tables};
use crate::plan::attach::StrangerCount;
use crate::plan::tables::PLUGIN_FOLDERS;
use crate::plan::{VerbsTable, file_name, is_communication_library};

/// Where ld.so looks for libraries.
#[derive(Clone, Debug, Default)]
pub struct LibraryPaths {
    /// LD_LIBRARY_PATH.
    pub from_environment: Vec<PathBuf>,
    /// Soname → path, as `ldconfig -p` lists them.
    pub cache: HashMap<String, PathBuf>,
    /// Folders that are always looked into.
    pub default: Vec<PathBuf>,
}

impl LibraryPaths {
    /// Those of this machine and environment.
    pub fn of_this_machine() -> Self {
        const LDCONFIG: [&str; 3] = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"];
        let listing = LDCONFIG.iter().find_map(|command| {
            let output = std::process::Command::new(command).arg("-p").output().ok()?;
            String::from_utf8(output.stdout).ok()
        });
        let variable = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let default = [
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        ];
        Self {
            from_environment: variable.split(':').filter(|p| !p.is_empty()).map(PathBuf::from).collect(),
            cache: parse_cache(&listing.unwrap_or_default()),
            default: default.iter().map(PathBuf::from).collect(),
        }
    }

    /// The file that `name` is found as, by a file in `origin` with this run path.
    fn find(&self, name: &str, origin: &Path, run_path: Option<&str>) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|p| p.is_file());
        }
        let run_path = run_path.unwrap_or_default().split(':').filter(|p| !p.is_empty()).map(|folder| {
            let origin = origin.to_string_lossy();
            PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
        });
        let in_folder = |folder: PathBuf| Some(folder.join(name)).filter(|p| p.is_file());
        let mut first = self.from_environment.iter().cloned().chain(run_path);
        first
            .find_map(in_folder)
            .or_else(|| self.cache.get(name).filter(|p| p.is_file()).cloned())
            .or_else(|| self.default.iter().cloned().find_map(in_folder))
    }
}

/// Reads what `ldconfig -p` prints: `\tlibx.so.1 (libc6,x86-64) => /usr/lib/libx.so.1`.
pub fn parse_cache(listing: &str) -> HashMap<String, PathBuf> {
    let mut cache = HashMap::new();
    for line in listing.lines().filter(|l| l.contains("x86-64")) {
        if let Some((name, path)) =
            line.trim().split_once(" (").zip(line.rsplit_once(" => ")).map(|(n, p)| (n.0, p.1))
        {
            cache.entry(name.to_owned()).or_insert_with(|| PathBuf::from(path.trim()));
        }
    }
    cache
}

/// Programs that only start another one.
const STARTERS: [&str; 9] = ["bash", "dash", "env", "nice", "numactl", "sh", "stdbuf", "taskset", "timeout"];

/// Options of launchers whose next word says where ranks go: some of these (`node`) are names of programs as well.
const PLACING_OPTIONS: [&str; 3] = ["map-by", "bind-to", "rank-by"];

fn takes_next_word(word: &str) -> bool {
    word.starts_with('-') && PLACING_OPTIONS.contains(&word.trim_start_matches('-'))
}

/// The program that a command line will run as ranks: behind a launcher's name, wherever that is, the first word that is a
/// program, and neither a script nor one that only starts another; without a launcher the command itself.
pub fn program_of(command: &[String], search: &[PathBuf]) -> Option<PathBuf> {
    let executable = |word: &String| found_program(word, search, |path| is_program(path) && is_elf(path));
    match command.iter().position(|word| is_launcher(file_name(word))) {
        None => executable(command.first()?),
        Some(launcher) => {
            let words =
                command[launcher..].windows(2).filter(|pair| !takes_next_word(&pair[0])).map(|pair| &pair[1]);
            let may_be_it = |word: &&String| !word.starts_with('-') && !STARTERS.contains(&file_name(word));
            words.filter(may_be_it).find_map(executable)
        }
    }
}

/// The file that a word of a command line is, as a shell finds it.
pub fn found_program(word: &str, search: &[PathBuf], is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| is_it(path));
    }
    search.iter().map(|folder| folder.join(word)).find(|path| is_it(path))
}

/// Whether a file may be run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Where a shell looks for programs.
pub fn search_path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn is_elf(path: &Path) -> bool {
    open_path(path).is_ok_and(|(_, file)| file.code_at(0).starts_with(b"\x7fELF"))
}

/// Reads a program, the libraries that it names, theirs, and the plugins that its MPI library
/// will load.
///
/// # Errors
/// The program cannot be read. A library that is not found is only noted.
pub fn gather_program(
    program: &Path,
    paths: &LibraryPaths,
    parser: &mut dyn FileParser,
) -> io::Result<Gathered> {
    let mut gathered = Gathered::default();
    let mut known = BTreeSet::new();
    let mut pending: VecDeque<PathBuf> = VecDeque::new();
    read(program, true, &mut known, &mut gathered)?;
    let devices = device_tables().unwrap_or_else(|why| {
        gathered.notes.push(why);
        DeviceTables::default()
    });
    pending.extend(devices.library);
    pending.extend(devices.tables.iter().map(|(provider, _)| provider.clone()));
    let mut next = 0;
    loop {
        while let Some(image) = gathered.files.get(next).cloned() {
            next += 1;
            let (found, missing) = needed(&image, paths, parser);
            gathered.notes.extend(
                missing.iter().map(|name| format!("{} needs {name}, which is not found", image.path)),
            );
            pending.extend(found);
            pending.extend(plugins(Path::new(&image.path)));
        }
        let Some(path) = pending.pop_front() else { break };
        if let Err(error) = read(&path, false, &mut known, &mut gathered) {
            gathered.unreadable.push((path.display().to_string(), error.to_string()));
        }
    }
    gathered.verbs = devices.tables.into_iter().filter_map(|known| of_file(known, &gathered.files)).collect();
    count_strangers(&mut gathered.attach, &[], &HashSet::from([user_of_jobs()]));
    Ok(gathered)
}

/// Some file systems give a file other numbers than those by which it is mapped: here it is known by the former.
fn of_file((provider, table): (PathBuf, VerbsTable), files: &[FoundFile]) -> Option<VerbsTable> {
    let provider = provider.canonicalize().ok()?;
    let file = files.iter().find(|file| Path::new(&file.path) == provider)?.id;
    Some(VerbsTable { file, ..table })
}

fn read(
    path: &Path,
    is_program: bool,
    known: &mut BTreeSet<FileId>,
    gathered: &mut Gathered,
) -> io::Result<()> {
    let path = path.canonicalize()?;
    let (id, opened) = open_path(&path)?;
    if known.insert(id) {
        let file = Arc::new(opened);
        let path = path.display().to_string();
        gathered.files.push(FoundFile { id, path, is_program, file: Arc::clone(&file) });
        let strangers = StrangerCount::default();
        gathered.attach.insert(id, AttachPoint { file, pids: Vec::new(), strangers });
    }
    Ok(())
}

/// Libraries that a file names: where they are, and names that are nowhere.
fn needed(
    image: &FoundFile,
    paths: &LibraryPaths,
    parser: &mut dyn FileParser,
) -> (Vec<PathBuf>, Vec<String>) {
    let Ok(summary) = parser.summary(&image.file) else { return Default::default() };
    let origin = Path::new(&image.path).parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in &summary.needed {
        match paths.find(name, origin, summary.run_path.as_deref()) {
            Some(path) => found.push(path),
            None => missing.push(name.clone()),
        }
    }
    (found, missing)
}

/// Plugins that a library loads by itself: communication libraries in folders next to it.
fn plugins(library: &Path) -> Vec<PathBuf> {
    let name = file_name(library.to_str().unwrap_or_default());
    let Some(folder) = library.parent() else { return Vec::new() };
    let folders = PLUGIN_FOLDERS.iter().filter(|(beginning, _)| name.starts_with(beginning));
    let mut found: Vec<PathBuf> = folders
        .flat_map(|(_, below)| std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            path.is_file() && is_communication_library(file_name(path.to_str().unwrap_or_default()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_lists_the_first_library_of_each_name() {
        let listing = "2 libs found in cache `/etc/ld.so.cache'\n\
            \tlibm.so.6 (libc6, OS ABI: Linux 3.2.0) => /lib32/libm.so.6\n\
            \tlibm.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libm.so.6\n\
            \tlibm.so.6 (libc6,x86-64) => /elsewhere/libm.so.6\n";
        let cache = parse_cache(listing);
        assert_eq!(cache.len(), 1);
        assert_eq!(cache["libm.so.6"], PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6"));
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_program_is_the_first_executable_behind_the_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("stencil");
        let agent = folder.path().join("agent");
        for (path, content) in [(&program, "\x7fELF"), (&agent, "#!/bin/sh")] {
            std::fs::write(path, content).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let hosts = folder.path().join("hosts");
        std::fs::write(&hosts, "").unwrap();
        let search = [folder.path().to_owned()];
        assert_eq!(
            program_of(&words("mpirun -n 4 --hostfile hosts stencil -n 9"), &search),
            Some(program.clone())
        );
        let by_path = format!("mpirun --hostfile {} {}", hosts.display(), program.display());
        assert_eq!(program_of(&words(&by_path), &search), Some(program.clone()));
        assert_eq!(program_of(&words("stencil 1"), &search), Some(program.clone()));
        let behind_a_script = format!("mpirun --launch-agent {} {}", agent.display(), program.display());
        assert_eq!(program_of(&words(&behind_a_script), &search), Some(program.clone()));
        let behind_others = "mpirun -n 4 sh -c 'x=1' sh env A=1 timeout 9 stencil";
        let search_all = [folder.path().to_owned(), "/usr/bin".into()];
        assert_eq!(program_of(&words(behind_others), &search_all), Some(program.clone()));
        assert_eq!(program_of(&words("timeout 9 mpirun -n 4 stencil"), &search), Some(program));
        assert_eq!(program_of(&words("mpirun -n 4 nothing"), &search), None);
        assert_eq!(program_of(&[], &search), None);
    }

    #[test]
    fn what_says_where_ranks_go_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let [node, stencil] = ["node", "stencil"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "\x7fELF").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        });
        let search = [folder.path().to_owned()];
        let program = |line| program_of(&words(line), &search);
        assert_eq!(program("mpirun --map-by node --bind-to none -n 2 stencil"), Some(stencil.clone()));
        assert_eq!(program("mpirun -n 2 -rank-by node stencil node"), Some(stencil));
        assert_eq!(program("mpirun -n 2 node stencil"), Some(node));
    }

    #[test]
    fn the_run_path_comes_before_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let (near, far) = (folder.path().join("lib/libx.so"), folder.path().join("libx.so"));
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(&near, "").unwrap();
        std::fs::write(&far, "").unwrap();
        let cache = HashMap::from([("libx.so".to_owned(), far.clone())]);
        let paths = LibraryPaths { cache, ..LibraryPaths::default() };
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        assert_eq!(
            paths.find("libx.so", &bin, Some("$ORIGIN/nowhere:$ORIGIN/../lib")),
            Some(bin.join("../lib/libx.so"))
        );
        assert_eq!(paths.find("libx.so", &bin, None), Some(far));
        assert_eq!(paths.find("liby.so", &bin, None), None);
    }
}
