//! How ranks on other nodes get what the wrapper needs in their environment.
//!
//! Hydra and srun pass on the whole environment. Open MPI's launcher passes on what it is told to.

use super::super::wrapper_file::WrapperKind;
use crate::plan::file_name;

/// The command, and what is to be in its environment beside that, so that ranks on other nodes have these variables too.
pub(in super::super) fn forward_environment(
    command: &[String],
    kind: WrapperKind,
    variables: &[&str],
) -> (Vec<String>, Option<String>) {
    if kind != WrapperKind::OpenMpi {
        return (command.to_vec(), None);
    }
    let Some(launcher) = command.iter().position(|word| is_open_mpi_launcher(file_name(word))) else {
        // It may be within a script. Its option -x cannot be used beside this.
        return (command.to_vec(), Some(format!("OMPI_MCA_mca_base_env_list={}", variables.join(";"))));
    };
    let options = variables.iter().flat_map(|name| ["-x".to_owned(), (*name).to_owned()]);
    let (before, after) = command.split_at(launcher + 1);
    (before.iter().cloned().chain(options).chain(after.iter().cloned()).collect(), None)
}

fn is_open_mpi_launcher(name: &str) -> bool {
    let name = name.strip_suffix(".openmpi").unwrap_or(name);
    matches!(name, "mpirun" | "mpiexec" | "orterun" | "prterun")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(command: &str, kind: WrapperKind) -> (String, Option<String>) {
        let words: Vec<String> = command.split(' ').map(String::from).collect();
        let (words, variable) = forward_environment(&words, kind, &["LD_PRELOAD", "DMSCOPE_REPLAY"]);
        (words.join(" "), variable)
    }

    #[test]
    fn the_launcher_of_open_mpi_is_told_what_to_pass_on() {
        let expected = "timeout 60 mpirun.openmpi -x LD_PRELOAD -x DMSCOPE_REPLAY -n 4 ./app";
        let command = "timeout 60 mpirun.openmpi -n 4 ./app";
        assert_eq!(forwarded(command, WrapperKind::OpenMpi), (expected.into(), None));
        assert_eq!(forwarded(command, WrapperKind::Mpich), (command.into(), None));
    }

    #[test]
    fn a_launcher_within_a_script_reads_it_in_its_environment() {
        let (command, variable) = forwarded("./run.sh 4", WrapperKind::OpenMpi);
        assert_eq!(command, "./run.sh 4");
        let expected = "OMPI_MCA_mca_base_env_list=LD_PRELOAD;DMSCOPE_REPLAY";
        assert_eq!(variable.as_deref(), Some(expected));
    }
}
