//! From a file of the kernel's to what it is to `PostgreSQL`.

use crate::event::FileKey;
use std::collections::HashMap;
use tenbin_record::io::{Purpose, Text};

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName {
    pub(crate) purpose: Purpose,
    /// From the cluster's data directory, or else from the root of its file system.
    pub(crate) path: Text,
    pub(crate) relation: Option<RelationFile>,
}

/// Which part of which relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelationFile {
    /// As `pg_relation_filepath` has it: `base/5/16384`.
    pub(crate) key: Text,
    pub(crate) fork: Text,
    pub(crate) segment: u64,
}

/// A folder, as the kernel tells it: file system and inode.
pub(crate) type Folder = (u32, u64);

/// Where a cluster's folders are: those that `pg_wal` and `pg_tblspc/…` lead to among them.
pub(crate) type Roots = HashMap<Folder, String>;

/// Names a file by the folders above it; `parts` goes from the file outwards.
///
/// With `roots` a file belongs to the cluster if one of the folders above it is one of them. Without,
/// by how `PostgreSQL` lays out its files, whatever cluster it is of.
pub(crate) fn name(key: &FileKey, parts: &[(u64, String)], roots: &Roots, own: Folder) -> FileName {
    let above = |folder: &Folder| {
        let found = parts
            .iter()
            .skip(1)
            .position(|(inode, _)| (key.fs_dev, *inode) == *folder);
        found.map(|index| index + 1)
    };
    if above(&own).is_some() {
        return FileName {
            purpose: Purpose::Trace,
            path: path(parts, parts.len()).into(),
            relation: None,
        };
    }
    let root = roots
        .iter()
        .find_map(|(folder, prefix)| Some((above(folder)?, prefix)));
    match root {
        Some((depth, prefix)) => {
            let inside = path(parts, depth);
            in_cluster(&join(prefix, &inside))
        }
        None if roots.is_empty() => by_layout(parts),
        None => FileName {
            purpose: Purpose::File,
            path: path(parts, parts.len()).into(),
            relation: None,
        },
    }
}

pub(crate) fn join(prefix: &str, inside: &str) -> String {
    if prefix.is_empty() {
        inside.to_owned()
    } else {
        format!("{prefix}/{inside}")
    }
}

/// The innermost `depth` names, outermost first. The name of a root is `/`.
fn path(parts: &[(u64, String)], depth: usize) -> String {
    let names: Vec<&str> = parts[..depth.min(parts.len())]
        .iter()
        .rev()
        .map(|(_, name)| name.as_str())
        .collect();
    match names.split_first() {
        Some((&"/", rest)) => format!("/{}", rest.join("/")),
        _ => names.join("/"),
    }
}

/// A file by its path from the data directory ("Database File Layout" in the manual).
pub(crate) fn in_cluster(path: &str) -> FileName {
    let relation = relation(path);
    let first = path.split('/').next().unwrap_or_default();
    let purpose = match first {
        "pg_wal" | "pg_xlog" => Purpose::Wal,
        _ if path.contains("/pgsql_tmp") => Purpose::Temporary,
        _ => match &relation {
            Some(found) if is_temporary(&found.key) => Purpose::Temporary,
            Some(_) => Purpose::Relation,
            None => Purpose::Cluster,
        },
    };
    FileName {
        purpose,
        path: path.into(),
        relation,
    }
}

/// Whether a relation's file is named as those of temporary ones are: `t3_16384`.
fn is_temporary(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    name.starts_with('t')
}

/// A file whose cluster nobody named.
fn by_layout(parts: &[(u64, String)]) -> FileName {
    let whole = path(parts, parts.len());
    let names: Vec<&str> = whole.split('/').collect();
    let mut starts = (0..names.len()).rev().filter_map(|at| {
        let inside = names[at..].join("/");
        let found = in_cluster(&inside);
        let wal_name = names.last().is_some_and(|name| is_wal_name(name));
        let known = found.relation.is_some()
            || found.purpose == Purpose::Temporary && names[at] == "base"
            || found.purpose == Purpose::Wal && wal_name;
        known.then_some(found)
    });
    let mut found = starts.next().unwrap_or(FileName {
        purpose: Purpose::File,
        path: "".into(),
        relation: None,
    });
    if let Some(relation) = &mut found.relation {
        // Two clusters have the same files: they are told apart by their whole path.
        let outside = whole.len() - found.path.len();
        relation.key = format!("{}{}", &whole[..outside], relation.key).into();
    }
    found.path = whole.into();
    found
}

/// Whether the server names files of its log so: `00000001000000000000000A` (timeline, log and segment),
/// the same with `.partial` or `.00000028.backup`, `00000002.history`, segments being made or restored,
/// and files about these (`archive_status`, `summaries`).
fn is_wal_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let hexadecimal = stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    match stem {
        "xlogtemp" | "RECOVERYXLOG" | "RECOVERYHISTORY" => true,
        _ if !hexadecimal => false,
        _ => match stem.len() {
            24 => true,
            8 => name.contains(".history"),
            40 => name.ends_with(".summary"),
            _ => false,
        },
    }
}

/// Which relation a path from the data directory is of: `base/5/16384_fsm.2`, `global/1262`,
/// `pg_tblspc/16400/PG_18_202506291/5/t3_16384`.
fn relation(path: &str) -> Option<RelationFile> {
    let (folder, file) = path.rsplit_once('/')?;
    let folders: Vec<&str> = folder.split('/').collect();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = match folders.as_slice() {
        ["global"] => true,
        ["base", database] => number(database),
        ["pg_tblspc", space, version, database] => {
            number(space) && version.starts_with("PG_") && number(database)
        }
        _ => false,
    };
    if !is_place {
        return None;
    }
    let (stem, segment) = file.split_once('.').unwrap_or((file, "0"));
    let (filenode, fork) = match stem.rsplit_once('_') {
        Some((filenode, fork @ ("fsm" | "vm" | "init"))) => (filenode, fork),
        _ => (stem, "main"),
    };
    let plain = match filenode.strip_prefix('t') {
        Some(temporary) => {
            let (backend, filenode) = temporary.split_once('_')?;
            number(backend) && number(filenode)
        }
        None => number(filenode),
    };
    plain.then_some(())?;
    Some(RelationFile {
        key: format!("{folder}/{filenode}").into(),
        fork: fork.into(),
        segment: segment.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(path: &[(&str, u64)]) -> Vec<(u64, String)> {
        path.iter()
            .rev()
            .map(|(name, inode)| (*inode, (*name).to_owned()))
            .collect()
    }

    const KEY: FileKey = FileKey {
        inode: 9,
        fs_dev: 7,
        generation: 1,
    };
    const OWN: Folder = (7, 99);

    #[test]
    fn files_of_the_log_are_told_by_their_names() {
        let layout = |file: &str| {
            let path = [("/", 1), ("somewhere", 2), ("pg_wal", 3), (file, 9)];
            name(&KEY, &parts(&path), &Roots::new(), OWN).purpose
        };
        for log in [
            "00000001000000000000000A",
            "00000001000000000000000A.partial",
            "00000001000000000000000A.00000028.backup",
            "00000002.history",
            "xlogtemp.1234",
            "RECOVERYXLOG",
            "0000000100000000010000280000000001000120.summary",
        ] {
            assert_eq!(layout(log), Purpose::Wal, "{log}");
        }
        for other in ["notes.txt", "12345678", "xlogtemporary"] {
            assert_eq!(layout(other), Purpose::File, "{other}");
        }
    }

    #[test]
    fn files_of_a_cluster_are_told_by_its_folders() {
        let roots = Roots::from([
            ((7, 2), String::new()),
            ((7, 30), "pg_tblspc/16400".to_owned()),
        ]);
        let named = |path: &[(&str, u64)]| name(&KEY, &parts(path), &roots, OWN);
        let table = named(&[("/", 1), ("data", 2), ("base", 3), ("5", 4), ("16384.2", 9)]);
        assert_eq!(
            (table.purpose, &*table.path),
            (Purpose::Relation, "base/5/16384.2")
        );
        let relation = table.relation.unwrap();
        assert_eq!(
            (&*relation.key, &*relation.fork, relation.segment),
            ("base/5/16384", "main", 2)
        );
        let spaced = named(&[
            ("ts", 30),
            ("PG_18_202506291", 31),
            ("5", 32),
            ("t3_77_fsm", 9),
        ]);
        assert_eq!(spaced.purpose, Purpose::Temporary);
        assert_eq!(
            &*spaced.relation.unwrap().key,
            "pg_tblspc/16400/PG_18_202506291/5/t3_77"
        );
        let purposes = [
            (
                vec![("data", 2), ("pg_wal", 5), ("000000010000000000000001", 9)],
                Purpose::Wal,
            ),
            (
                vec![
                    ("data", 2),
                    ("base", 3),
                    ("pgsql_tmp", 6),
                    ("pgsql_tmp12.0", 9),
                ],
                Purpose::Temporary,
            ),
            (
                vec![("data", 2), ("pg_xact", 7), ("0000", 9)],
                Purpose::Cluster,
            ),
            (
                vec![
                    ("/", 1),
                    ("other", 8),
                    ("base", 10),
                    ("5", 11),
                    ("16384", 9),
                ],
                Purpose::File,
            ),
            (
                vec![("/", 1), ("out", 99), ("io.parquet", 9)],
                Purpose::Trace,
            ),
        ];
        for (path, purpose) in purposes {
            assert_eq!(named(&path).purpose, purpose, "{path:?}");
        }
        // The same numbers on another file system are another folder.
        let elsewhere = FileKey { fs_dev: 8, ..KEY };
        let path = parts(&[("data", 2), ("base", 3), ("5", 4), ("16384", 9)]);
        assert_eq!(name(&elsewhere, &path, &roots, OWN).purpose, Purpose::File);
    }

    #[test]
    fn without_a_cluster_the_layout_tells_and_clusters_stay_apart() {
        let named = |path: &[(&str, u64)]| name(&KEY, &parts(path), &Roots::new(), OWN);
        let table = named(&[
            ("/", 1),
            ("srv", 2),
            ("main", 3),
            ("base", 4),
            ("5", 5),
            ("16384_vm", 9),
        ]);
        assert_eq!(
            (table.purpose, &*table.path),
            (Purpose::Relation, "/srv/main/base/5/16384_vm")
        );
        assert_eq!(&*table.relation.unwrap().key, "/srv/main/base/5/16384");
        let wal = named(&[
            ("/", 1),
            ("main", 3),
            ("pg_wal", 4),
            ("000000010000000000000001", 9),
        ]);
        assert_eq!(
            (wal.purpose, &*wal.path),
            (Purpose::Wal, "/main/pg_wal/000000010000000000000001")
        );
        let plain = named(&[("/", 1), ("pg_wal", 4), ("notes.txt", 9)]);
        assert_eq!(
            (plain.purpose, &*plain.path),
            (Purpose::File, "/pg_wal/notes.txt")
        );
    }

    proptest! {
        #[test]
        fn a_relations_path_is_read_back(
            database in 1_u32.., filenode in 1_u32.., segment in 0_u64..100,
            fork in proptest::sample::select(vec!["main", "fsm", "vm", "init"]),
        ) {
            let suffix = if fork == "main" { String::new() } else { format!("_{fork}") };
            let dot = if segment == 0 { String::new() } else { format!(".{segment}") };
            let found = relation(&format!("base/{database}/{filenode}{suffix}{dot}")).unwrap();
            prop_assert_eq!(&*found.key, format!("base/{database}/{filenode}"));
            prop_assert_eq!((&*found.fork, found.segment), (fork, segment));
        }

        #[test]
        fn any_path_is_named_without_panic(path in "[a-z0-9_./]{0,60}") {
            let parts: Vec<(u64, String)> = path.split('/').map(|name| (1, name.to_owned())).collect();
            let named = name(&KEY, &parts, &Roots::new(), OWN);
            prop_assert!(named.relation.is_none() || named.purpose != Purpose::File);
        }
    }
}
