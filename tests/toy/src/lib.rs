//! A workload in 60 lines, through the public interface alone: terminals take tickets from a sequence.

use std::time::Duration;
use tenbin_lab::{
    Dataset, Lab, LoadSpec, OnExisting, Pacing, Prepared, Recipe, Result, Spec, System,
};
use tenbin_wire::{Error, Session};
use tenbin_workload::{Cycle, Description, Executed, Kind, Tally, Workload};

/// Terminals that take tickets.
#[derive(Debug, Clone, Copy)]
pub struct Tickets;

/// Nothing is counted for an audit.
#[derive(Debug, Default)]
pub struct Nothing;

impl Tally for Nothing {
    fn merge(&mut self, _: Self) {}
}

impl Workload for Tickets {
    type Terminal = ();
    type Input = ();
    type Output = ();
    type Tally = Nothing;

    fn describe(&self) -> Description {
        Description {
            name: "tickets".to_owned(),
            title: "Ticket office".to_owned(),
            nature: "of a ticket office".to_owned(),
            scale_text: "1 counter".to_owned(),
            kinds: self.kinds(),
            isolation: "read committed".to_owned(),
            ..Description::default()
        }
    }
    fn kinds(&self) -> Vec<Kind> {
        vec![Kind::new("take_ticket")]
    }
    fn terminal(&self, _: u32) {}
    fn choose(&self, (): &mut ()) -> Cycle {
        Cycle {
            kind: 0,
            keying_ns: 0,
            think_ns: 0,
        }
    }
    fn input(&self, (): &mut (), _: u8) {}
    async fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        session.parse("take", "SELECT nextval('tickets')", &[]);
        session.sync().await.map(drop)
    }
    async fn execute(&self, session: &mut Session, (): &()) -> Result<Executed<()>, Error> {
        session.execute("take", &[]);
        session.sync().await?;
        Ok(Executed {
            committed: true,
            output: (),
        })
    }
    fn tally(&self, _: &mut Nothing, _: Cycle, (): &(), _: Option<&Executed<()>>) {}
}

impl Spec for Tickets {
    fn name(&self) -> &'static str {
        "tickets"
    }
    fn recipe<'a>(&'a self, _: &LoadSpec) -> Result<Box<dyn Recipe + 'a>> {
        Ok(Box::new(*self))
    }
}

impl Recipe for Tickets {
    fn load(&self, _: &Lab, sut: &System, _: &LoadSpec, _: OnExisting) -> Result<Dataset> {
        let create = "CREATE SEQUENCE IF NOT EXISTS tickets";
        sut.server.connect()?.batch_execute(create)?;
        Ok(Dataset::new(()))
    }
    fn prepare(&self, _: &System, load: &LoadSpec, _: &mut Dataset) -> Result<Prepared> {
        let options = load.options(load.terminals(), Pacing::None, Duration::ZERO)?;
        Ok(Prepared::plain(*self, options))
    }
}
