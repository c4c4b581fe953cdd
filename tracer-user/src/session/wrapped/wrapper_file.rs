//! Which wrapper a job needs, and where it is.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::shared_page::FORMAT_BYTES;

use crate::host::jobs::is_launcher;
use crate::host::launched::{LibraryPaths, gather_program, program_of};
use crate::host::parsing::ParsingChild;
use crate::plan::file_name;

/// A family of MPI libraries with the same handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapperKind {
    /// Open MPI 4.
    OpenMpi,
    /// MPICH 4, and those that have its handles.
    Mpich,
}

impl WrapperKind {
    fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// Of an MPI library, by the name of its file.
    fn of_library(name: &str) -> Option<Self> {
        if name.starts_with("libmpi.so.40") {
            return Some(Self::OpenMpi);
        }
        let is_mpich = ["libmpich.so", "libmpi.so.12", "libmpi.so.0"];
        is_mpich.iter().any(|beginning| name.starts_with(beginning)).then_some(Self::Mpich)
    }

    /// Of a library, by its own words for its version.
    pub(super) fn of_version(words: &str) -> Option<Self> {
        match (words.starts_with("Open MPI"), words.starts_with("MPICH")) {
            (true, _) => Some(Self::OpenMpi),
            (_, true) => Some(Self::Mpich),
            _ => None,
        }
    }

    /// Of a launcher, by the name of its file.
    fn of_launcher(name: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        match (has(&["orte", "prte", "openmpi"]), has(&["hydra", "mpich"])) {
            (true, _) => Some(Self::OpenMpi),
            (_, true) => Some(Self::Mpich),
            _ => None,
        }
    }
}

/// The wrapper for contents that goes with a wrapper.
pub(super) fn contents_wrapper(wrapper: &Path) -> Result<PathBuf> {
    let name = file_name(&wrapper.to_string_lossy()).replace("-wrapper-", "-wrapper-contents-");
    let path = wrapper.with_file_name(&name);
    if !path.is_file() {
        bail!("{name} is not beside {}: build it with `cargo xtask wrapper`", wrapper.display());
    }
    check_version(&path)?;
    Ok(path)
}

/// The wrapper for a command; `named`: by the user.
pub(super) fn wrapper_for(command: &[String], named: Option<WrapperKind>) -> Result<PathBuf> {
    wrapper_of(library_of(command, named)?)
}

/// The family of MPI libraries that a command uses; `named`: by the user.
pub(super) fn library_of(command: &[String], named: Option<WrapperKind>) -> Result<WrapperKind> {
    match (named, kind_of(command)?) {
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
        (None, None) => {
            bail!("cannot tell which MPI library the job uses: name it with --mpi openmpi or --mpi mpich")
        }
    }
}

/// The wrapper for a family of MPI libraries.
pub(super) fn wrapper_of(kind: WrapperKind) -> Result<PathBuf> {
    let name = format!("libdmscope-wrapper-{}.so", kind.name());
    let own = std::env::current_exe().context("where is this program?")?;
    let path = own.with_file_name(&name);
    if !path.is_file() {
        bail!(
            "{name} is not beside {}: `cargo xtask wrapper` builds it with the compiler of the MPI library",
            own.display()
        );
    }
    check_version(&path)?;
    Ok(path)
}

/// What ranks write, only this version can read.
fn check_version(wrapper: &Path) -> Result<()> {
    let format = format_of(wrapper).with_context(|| wrapper.display().to_string())?;
    if format != Some(FORMAT_BYTES) {
        bail!(
            "{} is of another version of dmscope: build it again with `cargo xtask wrapper`",
            wrapper.display()
        );
    }
    Ok(())
}

/// The format that a wrapper names; none if it names none.
fn format_of(wrapper: &Path) -> Result<Option<[u8; 8]>> {
    use object::{Object, ObjectSection, ObjectSymbol};
    let cache = object::ReadCache::new(std::fs::File::open(wrapper)?);
    let file = object::File::parse(&cache)?;
    let Some(symbol) = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("dmscope_format")) else {
        return Ok(None);
    };
    let bytes = file.sections().find_map(|section| section.data_range(symbol.address(), 8).ok().flatten());
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

/// By the libraries that the program names; of scripts, by the launcher.
fn kind_of(command: &[String]) -> Result<Option<WrapperKind>> {
    let search: Vec<PathBuf> = std::env::var_os("PATH")
        .iter()
        .flat_map(|path| std::env::split_paths(path).collect::<Vec<_>>())
        .collect();
    if let Some(program) = program_of(command, &search) {
        refuse(&program)?;
        let gathered =
            gather_program(&program, &LibraryPaths::of_this_machine(), &mut ParsingChild::default())
                .with_context(|| program.display().to_string())?;
        let kinds = gathered.files.iter().filter_map(|file| WrapperKind::of_library(file_name(&file.path)));
        if let Some(kind) = kinds.into_iter().next() {
            return Ok(Some(kind));
        }
    }
    let launcher = command.iter().find(|word| is_launcher(file_name(word)));
    let real = |word: &String| {
        let found = search.iter().map(|folder| folder.join(word)).find(|path| path.is_file());
        let path = found.unwrap_or_else(|| PathBuf::from(word)).canonicalize().ok()?;
        Some(path.file_name()?.to_str()?.to_owned())
    };
    Ok(launcher.and_then(real).and_then(|name| WrapperKind::of_launcher(&name)))
}

/// Programs into which nothing can be preloaded.
fn refuse(program: &Path) -> Result<()> {
    let mode = program.metadata().with_context(|| program.display().to_string())?.permissions().mode();
    if mode & 0o6000 != 0 {
        bail!("{} is setuid or setgid: nothing can be preloaded into it", program.display());
    }
    if is_static(program).with_context(|| program.display().to_string())? {
        bail!(
            "{} is statically linked: nothing can be preloaded into it; link it with the MPI library's shared object",
            program.display()
        );
    }
    Ok(())
}

/// Whether an ELF file has no part for the dynamic linker.
fn is_static(program: &Path) -> io::Result<bool> {
    let cache = object::ReadCache::new(std::fs::File::open(program)?);
    use object::read::elf::FileHeader;
    let unreadable = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let header = object::elf::FileHeader64::<object::Endianness>::parse(&cache).map_err(unreadable)?;
    let endian = header.endian().map_err(unreadable)?;
    let segments = header.program_headers(endian, &cache).map_err(unreadable)?;
    use object::read::elf::ProgramHeader;
    Ok(!segments.iter().any(|segment| segment.p_type(endian) == object::elf::PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_name() {
        assert_eq!(WrapperKind::of_library("libmpi.so.40.30.4"), Some(WrapperKind::OpenMpi));
        assert_eq!(WrapperKind::of_library("libmpich.so.12"), Some(WrapperKind::Mpich));
        assert_eq!(WrapperKind::of_library("libmpi.so.12"), Some(WrapperKind::Mpich));
        assert_eq!(WrapperKind::of_library("libmpi_mpifh.so.40"), None);
        assert_eq!(WrapperKind::of_library("libc.so.6"), None);
    }

    #[test]
    fn a_launcher_is_known_by_the_name_of_what_it_stands_for() {
        assert_eq!(WrapperKind::of_launcher("orterun"), Some(WrapperKind::OpenMpi));
        assert_eq!(WrapperKind::of_launcher("mpiexec.hydra"), Some(WrapperKind::Mpich));
        assert_eq!(WrapperKind::of_launcher("srun"), None);
    }

    #[test]
    fn a_library_that_names_no_format_is_not_of_this_version() {
        let own = std::env::current_exe().expect("this program");
        assert_eq!(format_of(&own).expect("an ELF file"), None);
        assert!(check_version(&own).unwrap_err().to_string().contains("cargo xtask wrapper"));
    }

    #[test]
    fn this_program_is_not_static() {
        assert!(!is_static(Path::new("/proc/self/exe")).expect("readable"));
    }
}
