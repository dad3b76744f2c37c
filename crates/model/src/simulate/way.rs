//! Where the requests of each class go, prepared for the event loop.

use super::place::NONE;
use super::sampler::Sampler;
use crate::network::{Class, Load, Network, Path, Service, Step};

/// Where a request of a class goes.
pub(super) enum Way {
    /// Station, whole visits, chance of one more.
    Order(Vec<(u32, u32, f64)>),
    /// Rows of cumulative chances.
    Routes(Vec<Vec<(f64, u32)>>),
    /// Operations one after the other.
    Program(Vec<Operation>),
}

/// A step as the event loop executes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    /// Service of a kind at a station.
    Visit { station: u32, kind: u32 },
    /// Takes a record or a unit of a resource.
    Take(u32),
    /// Releases all that is held of a resource.
    Free(u32),
    /// Starts the branches that the next `count` operations name, and continues at `next` when all have ended.
    Fork { count: u32, next: u32 },
    /// The place of a branch.
    Branch(u32),
    /// The end of a branch.
    Join,
    /// The end of the request.
    End,
}

/// The ways of all classes, and for each station the service times by kind: the kinds of the classes, then
/// one for each visit of a step.
pub(super) struct Ways {
    pub(super) ways: Vec<Way>,
    pub(super) services: Vec<Vec<Option<Sampler>>>,
}

impl Ways {
    pub(super) fn new(network: &Network) -> Self {
        let mut services: Vec<Vec<Option<Sampler>>> = network
            .stations
            .iter()
            .map(|station| {
                let samplers = station.service.iter();
                samplers
                    .map(|service| service.as_ref().map(Sampler::new))
                    .collect()
            })
            .collect();
        let classes = network.classes.iter().enumerate();
        let ways = classes
            .map(|(index, class)| way(network, class, index, &mut services))
            .collect();
        Self { ways, services }
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(NONE)
}

fn way(
    network: &Network,
    class: &Class,
    index: usize,
    services: &mut [Vec<Option<Sampler>>],
) -> Way {
    match &class.path {
        Path::Order => Way::Order(
            network
                .stations
                .iter()
                .enumerate()
                .filter(|(_, station)| station.visits[index] > 0.0)
                .map(|(at, station)| {
                    let whole = station.visits[index].floor();
                    (
                        number(at),
                        number(tenbin_stats::whole(whole)),
                        station.visits[index] - whole,
                    )
                })
                .collect(),
        ),
        Path::Routes(rows) => Way::Routes(
            rows.iter()
                .map(|row| {
                    let mut sum = 0.0;
                    row.iter()
                        .map(|(to, chance)| {
                            sum += chance;
                            // A row without an end leaves nothing to rounding.
                            (if sum > 1.0 - 1e-9 { 1.0 } else { sum }, number(*to))
                        })
                        .collect()
                })
                .collect(),
        ),
        Path::Steps(steps) => {
            let mut program = Vec::new();
            compile(steps, &mut program, services);
            program.push(Operation::End);
            Way::Program(program)
        }
    }
}

fn compile(steps: &[Step], program: &mut Vec<Operation>, services: &mut [Vec<Option<Sampler>>]) {
    for step in steps {
        match step {
            Step::Visit { station, service } => {
                let kind = number(services[*station].len());
                for (at, services) in services.iter_mut().enumerate() {
                    services.push((at == *station).then(|| Sampler::new(service)));
                }
                program.push(Operation::Visit {
                    station: number(*station),
                    kind,
                });
            }
            Step::Take(resource) => program.push(Operation::Take(number(*resource))),
            Step::Free(resource) => program.push(Operation::Free(number(*resource))),
            Step::Fork(branches) => {
                let fork = program.len();
                let count = number(branches.len());
                program.push(Operation::Fork { count, next: 0 });
                program.extend(branches.iter().map(|_| Operation::Branch(0)));
                for (at, branch) in branches.iter().enumerate() {
                    program[fork + 1 + at] = Operation::Branch(number(program.len()));
                    compile(branch, program, services);
                    program.push(Operation::Join);
                }
                let next = number(program.len());
                program[fork] = Operation::Fork { count, next };
            }
        }
    }
}

/// Think times of a closed class; none of an open one.
pub(super) fn think(class: &Class) -> Option<Sampler> {
    match &class.load {
        Load::Closed { think, .. } if think.mean_s > 0.0 => Some(Sampler::new(think)),
        Load::Closed { .. } => Some(Sampler::new(&Service {
            mean_s: 0.0,
            shape: crate::Shape::Deterministic,
        })),
        Load::Open { .. } => None,
    }
}
