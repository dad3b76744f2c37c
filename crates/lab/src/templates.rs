//! Data that are loaded once and start any number of trials, byte for byte.

use crate::workload::{OnExisting, WorkloadSpec};
use crate::{EmbeddedSpec, Lab, Result, ServerSpec, Trial};
use std::path::PathBuf;
use tenbin_server::Folder;

/// Settings that decide how rows are stored when they are loaded.
const STORING: [&str; 3] = [
    "default_table_access_method",
    "default_tablespace",
    "default_toast_compression",
];

/// Where the data of a trial come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataFrom {
    /// They are in the existing server; each trial leaves them changed for the next.
    Existing,
    /// From the template with this number, from 1: a copy of its files for each trial.
    Template(usize),
    /// Each trial loads its own, for this reason.
    EachLoad(&'static str),
}

/// Loaded data by what decides their bytes. Templates are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Templates {
    folders: Vec<Folder>,
    kept: Vec<(String, PathBuf)>,
}

impl Templates {
    /// The trial as it is to be run any number of times from the same bytes, and where those come from. Loads the
    /// data, unless an earlier trial with the same programs and data did.
    ///
    /// # Errors
    /// As [`Lab::open_for`] and [`Plan::load`](crate::Plan::load); no room for a copy.
    pub fn start(&mut self, lab: &Lab, trial: &Trial) -> Result<(Trial, DataFrom)> {
        let ServerSpec::Embedded(server) = &trial.server else {
            return Ok((trial.clone(), DataFrom::Existing));
        };
        if server.wal_parent.is_some() {
            let why = "its log is in a directory of its own";
            return Ok((trial.clone(), DataFrom::EachLoad(why)));
        }
        if !trial.plan()?.needs.tablespaces.is_empty() {
            let why = "its tablespaces are in directories of their own";
            return Ok((trial.clone(), DataFrom::EachLoad(why)));
        }
        let key = key(trial, server);
        let number = match self.kept.iter().position(|(kept, _)| *kept == key) {
            Some(number) => number,
            None => self.keep(lab, trial, server, key)?,
        };
        let server = EmbeddedSpec {
            template: Some(self.kept[number].1.clone()),
            ..server.clone()
        };
        let started = Trial {
            server: ServerSpec::Embedded(server),
            ..trial.clone()
        };
        Ok((started, DataFrom::Template(number + 1)))
    }

    /// Loads the data and keeps them.
    fn keep(
        &mut self,
        lab: &Lab,
        trial: &Trial,
        server: &EmbeddedSpec,
        key: String,
    ) -> Result<usize> {
        let folder = Folder::make(server.data_parent.as_deref())?;
        let template = folder.path().join("data");
        let plan = trial.plan()?;
        let mut sut = lab.open_for(&plan)?;
        plan.load(lab, &sut, OnExisting::Take)?;
        // The server may run as another user, but only this process reads what is kept.
        sut.keep_data(&template)?;
        sut.close()?;
        self.folders.push(folder);
        self.kept.push((key, template));
        Ok(self.kept.len() - 1)
    }
}

/// What decides the bytes of loaded data.
fn key(trial: &Trial, server: &EmbeddedSpec) -> String {
    let storing: Vec<_> = STORING
        .iter()
        .filter_map(|name| server.settings.get_key_value(*name))
        .collect();
    let data = match &trial.workload {
        WorkloadSpec::Tpcc(spec) => {
            let seed = spec.data.seed.unwrap_or(trial.load.seed);
            format!("tpcc {:?} {seed}", spec.data)
        }
        WorkloadSpec::Tpcb(spec) => format!("pgbench {:?}", spec.data),
        WorkloadSpec::Mix(spec) => format!("pgbench {:?}", spec.data),
        WorkloadSpec::Tpca(spec) => format!("tpca {:?}", spec.data),
        WorkloadSpec::Script(spec) => {
            format!(
                "script {:?} {:?} {:?}",
                spec.scale, spec.tables, spec.scripts
            )
        }
        WorkloadSpec::Tpch(spec) => format!("tpch {:?}", spec.data),
    };
    format!(
        "{:?} {:?} {storing:?} {data}",
        server.programs, server.data_parent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(json: &str) -> String {
        let trial: Trial = serde_json::from_str(json).unwrap();
        let ServerSpec::Embedded(server) = &trial.server else {
            panic!("{json}")
        };
        key(&trial, server)
    }

    #[test]
    fn data_are_shared_by_trials_that_load_the_same() {
        let base = key_of(r#"{"workload": {"tpcb": {"data": {"scale": 3}}}}"#);
        for same in [
            r#"{"workload": {"tpcb": {"data": {"scale": 3}, "pipeline": true}}}"#,
            r#"{"workload": {"mix": {"data": {"scale": 3}}}, "load": {"seed": 7, "terminals": 2}}"#,
            r#"{"workload": {"tpcb": {"data": {"scale": 3}}}, "server": {"embedded": {"settings": {"jit": "off"}}}}"#,
        ] {
            assert_eq!(key_of(same), base, "{same}");
        }
        for other in [
            r#"{"workload": {"tpcb": {"data": {"scale": 4}}}}"#,
            r#"{"workload": {"tpca": {"data": {"scale": 3}}}}"#,
            r#"{"workload": {"tpcb": {"data": {"scale": 3}}}, "server": {"embedded": {"programs": {"release": "17"}}}}"#,
            r#"{"workload": {"tpcb": {"data": {"scale": 3}}}, "server": {"embedded": {"settings": {"default_toast_compression": "lz4"}}}}"#,
        ] {
            assert_ne!(key_of(other), base, "{other}");
        }
        let seeded = |seed: u32| {
            key_of(&format!(
                r#"{{"workload": {{"tpcc": {{}}}}, "load": {{"seed": {seed}}}}}"#
            ))
        };
        assert_ne!(seeded(1), seeded(2));
    }
}
