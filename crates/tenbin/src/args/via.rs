//! `--via`: a pooler between load and server.

use clap::Args;
use tenbin_lab::{Pooler, ViaSpec};

/// What is between load and server.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct ViaArgs {
    /// Put a pooler between load and server, with N server connections: tpmonitor, tpmonitor=N, pgbouncer, pgbouncer=N [default of N: 20]
    #[arg(long, value_name = "POOLER[=N]", value_parser = parse)]
    pub(crate) via: Option<ViaSpec>,
}

fn parse(text: &str) -> Result<ViaSpec, String> {
    let (name, size) = match text.split_once('=') {
        Some((name, size)) => (name, Some(size)),
        None => (text, None),
    };
    let pooler = match name {
        "tpmonitor" => Pooler::TpMonitor,
        "pgbouncer" => Pooler::PgBouncer,
        _ => return Err("give tpmonitor or pgbouncer, and behind = the number of server connections: tpmonitor=20".into()),
    };
    match size.map_or(Ok(ViaSpec::POOL_SIZE), str::parse) {
        Ok(pool_size @ 1..=100_000) => Ok(ViaSpec { pooler, pool_size }),
        _ => Err(format!(
            "{} server connections: give a number from 1 to 100000",
            size.unwrap_or_default()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poolers_have_a_name_and_a_size() {
        let via = |pooler, pool_size| Ok(ViaSpec { pooler, pool_size });
        assert_eq!(parse("tpmonitor"), via(Pooler::TpMonitor, 20));
        assert_eq!(parse("pgbouncer=5"), via(Pooler::PgBouncer, 5));
        for bad in [
            "",
            "odyssey",
            "tpmonitor=0",
            "tpmonitor=x",
            "pgbouncer=",
            "pgbouncer=-1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
