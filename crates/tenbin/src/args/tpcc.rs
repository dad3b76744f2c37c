//! What the command line says about TPC-C, and what follows from it.

use super::load::ClientArgs;
use super::{DriveArgs, Driven, ViaArgs};
use clap::Args;
use tenbin_lab::tpcc::{TpccData, TpccSpec};
use tenbin_lab::{Pacing, WorkloadSpec};

/// What is loaded; fixed by the data once they are there.
#[derive(Args, Debug, Clone)]
pub(crate) struct LoadArgs {
    /// Number of warehouses (the scale; about 105 MB each) [default: what is loaded already, else 2]
    #[arg(short, long, visible_alias = "scale", value_name = "N", allow_negative_numbers = true, value_parser = warehouses)]
    warehouses: Option<u32>,
    /// Seed of all random data and operations
    #[arg(long, value_name = "N", default_value = "42")]
    pub(crate) seed: u64,
    /// Connections used for loading [default: one per core]
    #[arg(long, value_name = "N")]
    load_threads: Option<u32>,
    /// Hash partitions by warehouse of every table but item (PostgreSQL 11 and newer)
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Leave out the foreign keys
    #[arg(long)]
    no_foreign_keys: bool,
    /// Tablespace of a table or index: stock=fast, or for an embedded server a directory: stock=/disk2; may be repeated
    #[arg(long, value_name = "RELATION=TABLESPACE|DIR", value_parser = pair)]
    pub(crate) tablespace: Vec<(String, String)>,
    /// Drop and reload the tables that tenbin loaded earlier
    #[arg(long)]
    replace: bool,
}

/// How it is driven.
#[derive(Args, Debug, Clone)]
pub(crate) struct TpccDriveArgs {
    /// Terminals, spread evenly over the warehouses [default: 10 a warehouse]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    terminals: Option<u32>,
    /// Keying and think times: none, spec, or a factor of the standard's
    #[arg(long, value_name = "spec|none|FACTOR", default_value = "none")]
    pacing: Pacing,
    /// Run the five transactions as server functions
    #[arg(long)]
    procedures: bool,
    /// Draw transactions by weight instead of from the card deck: NEW-ORDER,PAYMENT,ORDER-STATUS,DELIVERY,STOCK-LEVEL
    #[arg(long, value_name = "W,W,W,W,W", value_parser = weights)]
    weights: Option<Weights>,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    via: ViaArgs,
}

/// Weights in the order of the kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights([f64; 5]);

impl LoadArgs {
    /// What is loaded.
    pub(crate) fn data(&self) -> TpccData {
        TpccData {
            warehouses: self.warehouses,
            seed: None,
            load_threads: self.load_threads,
            partitions: self.partitions,
            foreign_keys: !self.no_foreign_keys,
            tablespaces: self.tablespace.iter().cloned().collect(),
            replace: self.replace,
        }
    }
}

impl DriveArgs<LoadArgs> for TpccDriveArgs {
    fn spec(&self, load: &LoadArgs) -> Driven {
        let spec = TpccSpec {
            data: load.data(),
            procedures: self.procedures,
            weights: self.weights.map(|weights| weights.0),
        };
        let load = self
            .client
            .spec(load.seed, self.terminals, Some(self.pacing));
        (WorkloadSpec::Tpcc(spec), load, self.via.via)
    }
}

fn warehouses(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(count @ 1..=1_000_000) => u32::try_from(count).map_err(|error| error.to_string()),
        Ok(count) if count > 0 => Err(format!(
            "{count} warehouses would need about {} TB; at most 1,000,000",
            count / 9_500
        )),
        _ => Err("give a whole number of warehouses, 1 or more".into()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.into(), value.into()))
        }
        _ => Err("write RELATION=TABLESPACE".into()),
    }
}

fn weights(text: &str) -> Result<Weights, String> {
    let numbers: Vec<f64> = text
        .split(',')
        .map(|part| {
            part.trim()
                .parse::<f64>()
                .map_err(|error| format!("{part:?}: {error}"))
        })
        .collect::<Result<_, _>>()?;
    let array: [f64; 5] = numbers
        .try_into()
        .map_err(|_| "give five weights, separated by commas".to_owned())?;
    if array
        .iter()
        .any(|weight| !weight.is_finite() || *weight < 0.0)
        || array.iter().sum::<f64>() <= 0.0
    {
        return Err("weights are 0 or more, and not all 0".into());
    }
    Ok(Weights(array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_to_give_instead() {
        for bad in ["0", "-3", "two", "1.5", "99999999999999999999"] {
            assert!(warehouses(bad).is_err(), "{bad}");
        }
        assert!(warehouses("5000000").is_err_and(|message| message.contains("TB")));
        assert_eq!(warehouses("12"), Ok(12));
        for bad in [
            "1,2,3",
            "1,2,3,4,x",
            "0,0,0,0,0",
            "-1,1,1,1,1",
            "inf,1,1,1,1",
        ] {
            assert!(weights(bad).is_err(), "{bad}");
        }
        assert!(pair("stock").is_err() && pair("=x").is_err() && pair("stock=").is_err());
    }
}
