//! The network file: TOML in, [`Network`] out. Every error has its line and key.

use crate::network::{Class, Load, Network, Path, Scheduling, Servers, Service, Shape, Station};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

mod text;
mod visits;

pub use text::network_schema;
use text::{
    ClassText, File, PerClass, Routes, SchedulingText, ServersText, ServiceText, StationText,
    Value as _, distribution,
};
use visits::visits;

/// Largest number of stations.
const MOST_STATIONS: usize = 1_000;
/// Largest number of classes.
const MOST_CLASSES: usize = 100;
/// Largest population of a class.
const MOST_REQUESTS: u32 = 1_000_000;
/// Longest file in bytes.
const MOST_BYTES: usize = 4 << 20;
/// How far routes may be from 1 in sum.
const ROUTE_TOLERANCE: f64 = 1e-9;

/// What is wrong with a network file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {message}")]
pub struct FormatError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The key, such as `station "cpu": service`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Network {
    /// Reads a network file. `file` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    pub fn parse(text: &str, file: &str) -> Result<Self, FormatError> {
        let reader = Reader { text, file };
        if text.len() > MOST_BYTES {
            let message = format!(
                "the file has {} bytes; the limit is {MOST_BYTES}",
                text.len()
            );
            return Err(reader.error(0..0, "file", message));
        }
        let parsed: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let key = reader.key_at(span.start);
            reader.error(span, &key, error.message().to_owned())
        })?;
        reader.network(&parsed)
    }
}

/// The text, for places in it.
struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

/// A class's value with its place; `None`: the class has none.
type Placed<'a, T> = Option<(&'a T, Range<usize>)>;

type Checked<T> = Result<T, FormatError>;

impl Reader<'_> {
    fn error(&self, span: Range<usize>, key: &str, message: impl Into<String>) -> FormatError {
        let before = self.text.get(..span.start).unwrap_or_default();
        FormatError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            key: key.to_owned(),
            message: message.into(),
        }
    }

    /// The key of the line at a place, for errors that come from the TOML parser.
    fn key_at(&self, place: usize) -> String {
        let start = self
            .text
            .get(..place)
            .and_then(|before| before.rfind('\n'))
            .map_or(0, |at| at + 1);
        let line = self
            .text
            .get(start..)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default();
        line.split('=').next().unwrap_or_default().trim().to_owned()
    }

    fn network(&self, file: &File) -> Checked<Network> {
        let end = self.text.len()..self.text.len();
        if file.class.is_empty() {
            return Err(self.error(
                end,
                "class",
                "there is no class; add [[class]] with a name and a population or an arrival_rate",
            ));
        }
        if file.station.is_empty() {
            return Err(self.error(
                end,
                "station",
                "there is no station; add [[station]] with a name and a service time",
            ));
        }
        for (what, count, most) in [
            ("class", file.class.len(), MOST_CLASSES),
            ("station", file.station.len(), MOST_STATIONS),
        ] {
            if count > most {
                return Err(self.error(
                    end,
                    what,
                    format!("there are {count}; the limit is {most}"),
                ));
            }
        }
        self.names("class", file.class.iter().map(|class| &class.name))?;
        self.names("station", file.station.iter().map(|station| &station.name))?;
        let class_names: Vec<&str> = file
            .class
            .iter()
            .map(|class| class.name.as_ref().as_str())
            .collect();
        let mut stations = file
            .station
            .iter()
            .map(|station| self.station(station, &class_names))
            .collect::<Checked<Vec<_>>>()?;
        let mut classes = Vec::new();
        for (index, class) in file.class.iter().enumerate() {
            classes.push(self.class(class, index, file, &mut stations)?);
        }
        for (text, station) in file.station.iter().zip(&stations) {
            if station.visits.iter().all(|visits| *visits <= 0.0) {
                let key = format!("station {:?}", station.name);
                return Err(self.error(
                    text.name.span(),
                    &key,
                    "no class reaches this station; remove it, or add a service time or a route",
                ));
            }
        }
        let network = Network {
            name: file.name.clone(),
            classes,
            stations,
        };
        if let Some((station, share)) = network.overloaded().next() {
            let name = &file.station[station].name;
            let message = format!(
                "the open classes need {:.1} % of this station's capacity, so its queue grows without end; lower arrival_rate or the service time, or add servers",
                share * 100.0
            );
            return Err(self.error(
                name.span(),
                &format!("station {:?}", name.as_ref()),
                message,
            ));
        }
        Ok(network)
    }

    fn names<'a>(
        &self,
        what: &str,
        names: impl Iterator<Item = &'a Spanned<String>>,
    ) -> Checked<()> {
        let mut known = BTreeSet::new();
        for name in names {
            let text = name.as_ref();
            let key = format!("{what}: name");
            if text.trim().is_empty() {
                return Err(self.error(name.span(), &key, "the name is empty"));
            }
            if ["start", "end"].contains(&text.as_str())
                || ServiceText::OWN_KEYS.contains(&text.as_str())
            {
                return Err(self.error(
                    name.span(),
                    &key,
                    format!("{text:?} has a meaning in this format; choose another name"),
                ));
            }
            if !known.insert(text) {
                return Err(self.error(
                    name.span(),
                    &key,
                    format!("{text:?} is there twice; names must differ"),
                ));
            }
        }
        Ok(())
    }

    fn station(&self, text: &StationText, classes: &[&str]) -> Checked<Station> {
        let key = |part: &str| format!("station {:?}: {part}", text.name.as_ref());
        let servers = self.servers(text)?;
        let infinite = servers == Servers::Infinite;
        let scheduling = match text.scheduling {
            None if infinite => Scheduling::Delay,
            None | Some(SchedulingText::Ps) => Scheduling::Ps,
            Some(SchedulingText::Fcfs) => Scheduling::Fcfs,
            Some(SchedulingText::Delay) => Scheduling::Delay,
            Some(SchedulingText::Priority) => Scheduling::Priority,
        };
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
        let (servers, scheduling) = if infinite || scheduling == Scheduling::Delay {
            (Servers::Infinite, Scheduling::Delay)
        } else {
            (servers, scheduling)
        };
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
            .map(|found| {
                found
                    .map(|(service, span)| self.service(service, span, &key(part), false))
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

    fn service(
        &self,
        text: &ServiceText,
        span: Range<usize>,
        key: &str,
        zero: bool,
    ) -> Checked<Service> {
        let service = match text {
            ServiceText::Mean(mean_s) => Ok(Service {
                mean_s: *mean_s,
                shape: Shape::Exponential,
            }),
            ServiceText::Distribution(given) => distribution(given),
        };
        let service = service.map_err(|message| self.error(span.clone(), key, message))?;
        let mean_s = service.mean_s;
        if !mean_s.is_finite() || mean_s < 0.0 || (mean_s <= 0.0 && !zero) {
            let least = if zero { "0 or more" } else { "above 0" };
            return Err(self.error(span, key, format!("{mean_s} s: a time is {least}")));
        }
        Ok(service)
    }

    fn class(
        &self,
        text: &ClassText,
        index: usize,
        file: &File,
        stations: &mut [Station],
    ) -> Checked<Class> {
        let key = |part: &str| format!("class {:?}: {part}", text.name.as_ref());
        let load = match (&text.population, &text.arrival_rate) {
            (Some(_), Some(rate)) => {
                return Err(self.error(
                    rate.span(),
                    &key("arrival_rate"),
                    "a class has either a population (closed) or an arrival_rate (open)",
                ));
            }
            (None, None) => {
                return Err(self.error(
                    text.name.span(),
                    &key("population"),
                    "give a population (closed) or an arrival_rate (open)",
                ));
            }
            (Some(population), None) => self.closed(text, population)?,
            (None, Some(rate)) => {
                if let Some(think) = &text.think_time {
                    return Err(self.error(
                        think.span(),
                        &key("think_time"),
                        "an open class has no think time",
                    ));
                }
                let rate_per_s = *rate.as_ref();
                if !rate_per_s.is_finite() || rate_per_s <= 0.0 {
                    return Err(self.error(
                        rate.span(),
                        &key("arrival_rate"),
                        format!("{rate_per_s} arrivals per second: give a number above 0"),
                    ));
                }
                Load::Open { rate_per_s }
            }
        };
        let path = match &text.route {
            None => Path::Order,
            Some(routes) => {
                let routes = self.routes(routes, text, file)?;
                let visits = visits(&routes).ok_or_else(|| {
                    self.error(
                        text.name.span(),
                        &key("route"),
                        "a request never ends; give a route to \"end\" from every loop",
                    )
                })?;
                for (station, visits) in stations.iter_mut().zip(visits) {
                    if visits > 0.0 && station.service[index].is_none() {
                        let message = format!(
                            "a route goes to {:?}, where this class has no service time",
                            station.name
                        );
                        return Err(self.error(text.name.span(), &key("route"), message));
                    }
                    station.visits[index] = visits;
                }
                Path::Routes(routes)
            }
        };
        if stations.iter().all(|station| station.visits[index] <= 0.0) {
            return Err(self.error(
                text.name.span(),
                &key("name"),
                "this class visits no station",
            ));
        }
        Ok(Class {
            name: text.name.as_ref().clone(),
            load,
            priority: text.priority,
            path,
        })
    }

    fn closed(&self, text: &ClassText, population: &Spanned<i64>) -> Checked<Load> {
        let key = |part: &str| format!("class {:?}: {part}", text.name.as_ref());
        let think = match &text.think_time {
            None => Service {
                mean_s: 0.0,
                shape: Shape::Exponential,
            },
            Some(think) => self.service(think.as_ref(), think.span(), &key("think_time"), true)?,
        };
        let count = u32::try_from(*population.as_ref())
            .ok()
            .filter(|count| (1..=MOST_REQUESTS).contains(count))
            .ok_or_else(|| {
                let message = format!("{}: give 1 to {MOST_REQUESTS}", population.as_ref());
                self.error(population.span(), &key("population"), message)
            })?;
        Ok(Load::Closed {
            population: count,
            think,
        })
    }

    /// The routes as numbers of stations, checked one by one.
    fn routes(
        &self,
        text: &Routes,
        class: &ClassText,
        file: &File,
    ) -> Checked<Vec<Vec<(usize, f64)>>> {
        let key = |from: &str| format!("class {:?}: route {from:?}", class.name.as_ref());
        let place = |name: &Spanned<String>, from: &str| {
            let place = file
                .station
                .iter()
                .position(|station| station.name.as_ref() == name.as_ref());
            place.ok_or_else(|| {
                self.error(
                    name.span(),
                    &key(from),
                    format!("there is no station {:?}", name.as_ref()),
                )
            })
        };
        let mut routes = vec![Vec::new(); file.station.len() + 1];
        let mut given = vec![false; file.station.len() + 1];
        for (from, next) in text {
            let name = from.as_ref().as_str();
            let row = if name == "start" {
                0
            } else {
                place(from, name)? + 1
            };
            given[row] = true;
            let mut sum = 0.0;
            for (to, chance) in next.as_ref() {
                let value = *chance.as_ref();
                if !(0.0..=1.0).contains(&value) {
                    return Err(self.error(
                        chance.span(),
                        &key(name),
                        format!("{value}: a probability is 0 to 1"),
                    ));
                }
                sum += value;
                if to.as_ref() != "end" && value > 0.0 {
                    routes[row].push((place(to, name)?, value));
                }
            }
            if (sum - 1.0).abs() > ROUTE_TOLERANCE {
                return Err(self.error(
                    next.span(),
                    &key(name),
                    format!("the probabilities sum to {sum}, not 1"),
                ));
            }
        }
        if !given[0] {
            return Err(self.error(
                class.name.span(),
                &key("start"),
                "there is no route from \"start\"",
            ));
        }
        // Only what can be reached needs a way on.
        let mut reached = vec![0];
        let mut next = 0;
        while let Some(&row) = reached.get(next) {
            if !given[row] {
                let name = file.station[row - 1].name.as_ref();
                return Err(self.error(
                    class.name.span(),
                    &key(name),
                    "requests reach this station, but there is no route from it",
                ));
            }
            for (to, _) in &routes[row] {
                if !reached.contains(&(to + 1)) {
                    reached.push(to + 1);
                }
            }
            next += 1;
        }
        if let Some((from, _)) = text.iter().find(|(from, _)| {
            let row = file
                .station
                .iter()
                .position(|station| station.name.as_ref() == from.as_ref());
            row.is_some_and(|row| !reached.contains(&(row + 1)))
        }) {
            return Err(self.error(
                from.span(),
                &key(from.as_ref()),
                "no route from \"start\" reaches this station",
            ));
        }
        Ok(routes)
    }
}
