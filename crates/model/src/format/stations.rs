//! `[[station]]`.

use super::text::{PerClass, SchedulingText, ServersText, StationText};
use super::{Checked, Placed, Reader};
use crate::network::{Scheduling, Servers, Station};
use toml::Spanned;

impl Reader<'_> {
    /// `has_steps`: the service times may be in the steps of a class.
    pub(super) fn station(
        &self,
        text: &StationText,
        classes: &[&str],
        populations: &[Option<f64>],
        has_steps: bool,
    ) -> Checked<Station> {
        let key = |part: &str| format!("station {:?}: {part}", text.name.as_ref());
        let servers = self.servers(text)?;
        let (servers, scheduling) = self.scheduling(text, servers)?;
        let (part, times) = match (&text.service, &text.demand) {
            (Some(_), Some(demand)) => {
                return Err(self.error(
                    demand.span(),
                    &key("demand"),
                    "give either demand, or service and visits",
                ));
            }
            (Some(service), None) => ("service", service),
            (None, Some(demand)) => {
                if let Some(visits) = &text.visits {
                    return Err(self.error(
                        visits.span(),
                        &key("visits"),
                        "demand is for all visits; give service with visits",
                    ));
                }
                ("demand", demand)
            }
            (None, None) if has_steps => {
                return Ok(Station {
                    name: text.name.as_ref().clone(),
                    scheduling,
                    servers,
                    service: vec![None; classes.len()],
                    visits: vec![0.0; classes.len()],
                });
            }
            (None, None) => {
                return Err(self.error(
                    text.name.span(),
                    &key("service"),
                    "there is no service time; add for example service = \"5 ms\"",
                ));
            }
        };
        let service = self
            .per_class(times, &key(part), classes)?
            .into_iter()
            .zip(populations)
            .map(|(found, population)| {
                found
                    .map(|(service, span)| {
                        self.service(service, *population, span, &key(part), false)
                    })
                    .transpose()
            })
            .collect::<Checked<Vec<_>>>()?;
        let mut visits: Vec<f64> = service
            .iter()
            .map(|service| f64::from(u8::from(service.is_some())))
            .collect();
        if let Some(given) = &text.visits {
            for (class, found) in self
                .per_class(given, &key("visits"), classes)?
                .into_iter()
                .enumerate()
            {
                let Some((value, span)) = found else { continue };
                if !value.is_finite() || *value < 0.0 {
                    return Err(self.error(
                        span,
                        &key("visits"),
                        format!("{value} visits: give 0 or more"),
                    ));
                }
                if service[class].is_some() {
                    visits[class] = *value;
                } else if matches!(given.as_ref(), PerClass::Each(_)) && *value > 0.0 {
                    return Err(self.error(
                        span,
                        &key("visits"),
                        format!("class {:?} has no service time here", classes[class]),
                    ));
                }
            }
        }
        Ok(Station {
            name: text.name.as_ref().clone(),
            scheduling,
            servers,
            service,
            visits,
        })
    }

    fn scheduling(&self, text: &StationText, servers: Servers) -> Checked<(Servers, Scheduling)> {
        let key = |part: &str| format!("station {:?}: {part}", text.name.as_ref());
        let infinite = servers == Servers::Infinite;
        let scheduling = match text.scheduling {
            None if infinite => Scheduling::Delay,
            None | Some(SchedulingText::Ps) => Scheduling::Ps,
            Some(SchedulingText::Fcfs) => Scheduling::Fcfs,
            Some(SchedulingText::Delay) => Scheduling::Delay,
            Some(SchedulingText::Priority) => Scheduling::Priority,
            Some(SchedulingText::Group) => Scheduling::Group,
        };
        if scheduling == Scheduling::Group && servers != Servers::Count(1) {
            return Err(self.error(
                text.name.span(),
                &key("scheduling"),
                "a group is served by one server; remove servers and speeds",
            ));
        }
        if scheduling == Scheduling::Delay
            && !infinite
            && (text.servers.is_some() || text.speeds.is_some())
        {
            return Err(self.error(
                text.name.span(),
                &key("scheduling"),
                "a delay has no servers or speeds; remove them",
            ));
        }
        Ok(if infinite || scheduling == Scheduling::Delay {
            (Servers::Infinite, Scheduling::Delay)
        } else {
            (servers, scheduling)
        })
    }

    fn servers(&self, text: &StationText) -> Checked<Servers> {
        let key = |part: &str| format!("station {:?}: {part}", text.name.as_ref());
        let most = Servers::MOST;
        match (&text.servers, &text.speeds) {
            (Some(servers), Some(_)) => Err(self.error(
                servers.span(),
                &key("servers"),
                "give either servers or speeds",
            )),
            (None, None) => Ok(Servers::Count(1)),
            (Some(servers), None) => match servers.as_ref() {
                ServersText::Infinite => Ok(Servers::Infinite),
                ServersText::Count(count) => u32::try_from(*count)
                    .ok()
                    .filter(|count| (1..=most).contains(count))
                    .map(Servers::Count)
                    .ok_or_else(|| {
                        let message = format!("{count} servers: give 1 to {most}, or \"infinite\"");
                        self.error(servers.span(), &key("servers"), message)
                    }),
            },
            (None, Some(speeds)) => {
                let values = speeds.as_ref();
                if values.is_empty() || values.len() > most as usize {
                    let message = format!("{} values: give 1 to {most}", values.len());
                    return Err(self.error(speeds.span(), &key("speeds"), message));
                }
                if let Some(wrong) = values
                    .iter()
                    .find(|speed| !(speed.is_finite() && **speed > 0.0))
                {
                    return Err(self.error(
                        speeds.span(),
                        &key("speeds"),
                        format!("{wrong}: a speed is above 0"),
                    ));
                }
                Ok(Servers::Speeds(values.clone()))
            }
        }
    }

    /// The value of each class, with its place.
    fn per_class<'a, T>(
        &self,
        given: &'a Spanned<PerClass<T>>,
        key: &str,
        classes: &[&str],
    ) -> Checked<Vec<Placed<'a, T>>> {
        match given.as_ref() {
            PerClass::All(value) => Ok(classes
                .iter()
                .map(|_| Some((value, given.span())))
                .collect()),
            PerClass::Each(each) => {
                let mut values: Vec<_> = classes.iter().map(|_| None).collect();
                for (class, value) in each {
                    let Some(index) = classes.iter().position(|name| *name == class.as_ref())
                    else {
                        let message = format!(
                            "there is no class {:?}; the classes are {}",
                            class.as_ref(),
                            classes.join(", ")
                        );
                        return Err(self.error(class.span(), key, message));
                    };
                    values[index] = Some((value.as_ref(), value.span()));
                }
                Ok(values)
            }
        }
    }
}
