//! Seek distances beside a computation that knows nothing of streams.

use proptest::prelude::*;
use tenbin_iotrace::totals::Stream;
use tenbin_record::io::Text;

/// Every pair of neighbours on a disk, straight from the definition (S2): in the order of issue,
/// the first excluded.
fn brute_force(ios: &[(u8, u64, u32)]) -> u128 {
    let mut sum = 0;
    for (index, (disk, start, _)) in ios.iter().enumerate() {
        let before = ios[..index].iter().rfind(|(other, _, _)| other == disk);
        if let Some((_, sector, bytes)) = before {
            let end = i128::from(*sector) + i128::from(bytes / 512);
            sum += (i128::from(*start) - end).unsigned_abs();
        }
    }
    sum
}

/// Small steps, jumps back, overlaps, and addresses to the end of the largest disk there can be.
fn ios() -> impl Strategy<Value = Vec<(u8, u64, u32)>> {
    let sector = prop_oneof![
        0_u64..4096,
        (1_u64 << 32) - 64..(1 << 32) + 64,
        any::<u64>(),
        Just(u64::MAX),
    ];
    let bytes = (0_u32..2048).prop_map(|sectors| sectors * 512);
    proptest::collection::vec((0_u8..3, sector, bytes), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_streams_distance_is_that_of_the_definition(ios in ios()) {
        let disks = ["sda", "sdb", "sdc"].map(Text::from);
        let mut stream = Stream::default();
        for (disk, sector, bytes) in &ios {
            stream.add(&disks[usize::from(*disk)], *sector, *bytes);
        }
        let wanted = brute_force(&ios);
        prop_assert_eq!(stream.seek_sectors(), wanted);
        let flow = stream.flow();
        prop_assert_eq!(flow.seek_sectors, u64::try_from(wanted).unwrap_or(u64::MAX));
        prop_assert_eq!(flow.count, ios.len() as u64);
        prop_assert_eq!(flow.bytes, ios.iter().map(|io| u64::from(io.2)).sum::<u64>());
    }
}

#[test]
fn the_source_reads_forward_and_back() {
    let disk = Text::from("sda");
    let mut stream = Stream::default();
    // From 0 over 8 sectors; on at 8; back to 0 from 16; far ahead to 2^40 from 8.
    for sector in [0, 8, 0, 1 << 40] {
        stream.add(&disk, sector, 4096);
    }
    let flow = stream.flow();
    assert_eq!(
        (flow.sequential, flow.seek_sectors),
        (1, 16 + (1 << 40) - 8)
    );
}
