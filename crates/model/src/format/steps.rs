//! `[[resource]]` and the steps of a class.

use super::text::{ClassText, File, ResourceText, StepText};
use super::{Checked, Reader};
use crate::network::{Resource, Service, Shape, Station, Step};
use toml::Spanned;

/// Largest number of resources.
const MOST_RESOURCES: usize = 1_000;
/// Most records of a resource.
const MOST_RECORDS: i64 = 10_000_000;
/// Most units of a record, and places in a queue.
const MOST_UNITS: i64 = 1_000_000;
/// Most steps of a class, forks included.
const MOST_STEPS: usize = 10_000;
/// Largest exponent of Zipf's law.
const MOST_ZIPF: f64 = 10.0;

/// What steps refer to.
struct Scope<'a> {
    class: &'a ClassText,
    index: usize,
    file: &'a File,
    stations: &'a [Station],
}

impl Reader<'_> {
    pub(super) fn resources(&self, file: &File) -> Checked<Vec<Resource>> {
        if file.resource.len() > MOST_RESOURCES {
            let end = self.text.len()..self.text.len();
            let message = format!(
                "there are {}; the limit is {MOST_RESOURCES}",
                file.resource.len()
            );
            return Err(self.error(end, "resource", message));
        }
        self.names("resource", file.resource.iter().map(|text| &text.name))?;
        file.resource
            .iter()
            .map(|text| self.resource(text))
            .collect()
    }

    fn resource(&self, text: &ResourceText) -> Checked<Resource> {
        let name = text.name.as_ref();
        let count = |value: Option<&Spanned<i64>>, part: &str, least: i64, most: i64| {
            let Some(value) = value else { return Ok(None) };
            let given = *value.as_ref();
            u32::try_from(given)
                .ok()
                .filter(|_| (least..=most).contains(&given))
                .map(Some)
                .ok_or_else(|| {
                    let key = format!("resource {name:?}: {part}");
                    self.error(
                        value.span(),
                        &key,
                        format!("{given}: give {least} to {most}"),
                    )
                })
        };
        let zipf = text.zipf.as_ref().map_or(0.0, |zipf| *zipf.as_ref());
        if !(0.0..=MOST_ZIPF).contains(&zipf) {
            let span = text.zipf.as_ref().map_or(0..0, Spanned::span);
            let key = format!("resource {name:?}: zipf");
            return Err(self.error(span, &key, format!("{zipf}: give 0 to {MOST_ZIPF}")));
        }
        Ok(Resource {
            name: name.clone(),
            records: count(text.records.as_ref(), "records", 1, MOST_RECORDS)?.unwrap_or(1),
            units: count(text.units.as_ref(), "units", 1, MOST_UNITS)?.unwrap_or(1),
            queue: count(text.queue.as_ref(), "queue", 0, MOST_UNITS)?,
            zipf,
        })
    }

    /// The steps of a class; sets its service times and visits at the stations.
    pub(super) fn steps(
        &self,
        texts: &[Spanned<StepText>],
        class: &ClassText,
        index: usize,
        file: &File,
        stations: &mut [Station],
    ) -> Checked<Vec<Step>> {
        let scope = Scope {
            class,
            index,
            file,
            stations,
        };
        let mut left = MOST_STEPS;
        let steps = self.sequence(texts, &scope, false, &mut left)?;
        let mut visits: Vec<Vec<Service>> = vec![Vec::new(); stations.len()];
        collect(&steps, &mut visits);
        for (station, visits) in stations.iter_mut().zip(visits) {
            station.visits[index] = visits.len() as f64;
            station.service[index] = together(&visits);
        }
        Ok(steps)
    }

    fn sequence(
        &self,
        texts: &[Spanned<StepText>],
        scope: &Scope<'_>,
        forked: bool,
        left: &mut usize,
    ) -> Checked<Vec<Step>> {
        texts
            .iter()
            .map(|text| self.step(text, scope, forked, left))
            .collect()
    }

    fn step(
        &self,
        text: &Spanned<StepText>,
        scope: &Scope<'_>,
        forked: bool,
        left: &mut usize,
    ) -> Checked<Step> {
        let key = format!("class {:?}: steps", scope.class.name.as_ref());
        let wrong = |message: String| self.error(text.span(), &key, message);
        let fail = |message: String| Err(wrong(message));
        *left = left.saturating_sub(1);
        if *left == 0 {
            return fail(format!("there are more than {MOST_STEPS} steps"));
        }
        let step = text.as_ref();
        if step.service.is_some() && step.visit.is_none() {
            return fail("a service time belongs to a visit".to_owned());
        }
        let resource = |name: &str| {
            let mut resources = scope.file.resource.iter();
            match resources.position(|resource| resource.name.as_ref() == name) {
                _ if forked => Err(wrong(
                    "a fork takes and frees nothing; do it before or after".to_owned(),
                )),
                None => Err(wrong(format!("there is no resource {name:?}"))),
                Some(at) => Ok(at),
            }
        };
        match (&step.visit, &step.take, &step.free, &step.fork) {
            (Some(name), None, None, None) => {
                let Some(station) = scope
                    .stations
                    .iter()
                    .position(|station| station.name == *name)
                else {
                    return fail(format!("there is no station {name:?}"));
                };
                let service = match &step.service {
                    Some(service) => {
                        let active = self.active(scope.class);
                        self.service(service, active, text.span(), &key, false)?
                    }
                    None => match &scope.stations[station].service[scope.index] {
                        Some(service) => service.clone(),
                        None => {
                            return fail(format!(
                                "there is no service time, here or at station {name:?}"
                            ));
                        }
                    },
                };
                Ok(Step::Visit { station, service })
            }
            (None, Some(name), None, None) => resource(name).map(Step::Take),
            (None, None, Some(name), None) => resource(name).map(Step::Free),
            (None, None, None, Some(branches)) => {
                if branches.is_empty() || branches.iter().any(Vec::is_empty) {
                    return fail("each branch of a fork needs a visit".to_owned());
                }
                branches
                    .iter()
                    .map(|branch| self.sequence(branch, scope, true, left))
                    .collect::<Checked<Vec<_>>>()
                    .map(Step::Fork)
            }
            _ => fail("a step has one of visit, take, free and fork".to_owned()),
        }
    }
}

/// The service times of all visits, by station.
fn collect(steps: &[Step], visits: &mut [Vec<Service>]) {
    for step in steps {
        match step {
            Step::Visit { station, service } => visits[*station].push(service.clone()),
            Step::Fork(branches) => branches.iter().for_each(|branch| collect(branch, visits)),
            Step::Take(_) | Step::Free(_) => {}
        }
    }
}

/// One service time in place of several: their mean. If they differ, its shape is that of the means alone.
fn together(visits: &[Service]) -> Option<Service> {
    let first = visits.first()?;
    if visits.iter().all(|visit| visit == first) {
        return Some(first.clone());
    }
    let mean_s = visits.iter().map(|visit| visit.mean_s).sum::<f64>() / visits.len() as f64;
    let relative = visits.iter().map(|visit| visit.mean_s / mean_s);
    Some(Service {
        mean_s,
        shape: Shape::Empirical(relative.collect()),
    })
}

/// The resources that steps take, with whether each may refuse.
pub(super) fn may_refuse(steps: &[Step], resources: &[Resource]) -> bool {
    steps.iter().any(|step| match step {
        Step::Take(resource) => resources[*resource].queue.is_some(),
        _ => false,
    })
}
