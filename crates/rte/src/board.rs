//! The board on which threads chalk up their seconds, and the timeline made of it.

use crate::progress::{KindProgress, Point, PointKind};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenbin_workload::times::{add, histogram};

/// Most points of a timeline: two hours at one a second.
const POINTS: u64 = 7_200;

/// What one second brought to one kind.
#[derive(Debug, Clone)]
pub(crate) struct WindowKind {
    pub(crate) errors: u64,
    pub(crate) retries: u64,
    /// Answered after more than one try.
    pub(crate) retried: u64,
    pub(crate) skipped: u64,
    response_sum_ms: f64,
    response_square_sum_ms2: f64,
    wait_sum_ms: f64,
    response: Histogram<u32>,
}

impl WindowKind {
    fn new() -> Self {
        Self {
            errors: 0,
            retries: 0,
            retried: 0,
            skipped: 0,
            response_sum_ms: 0.0,
            response_square_sum_ms2: 0.0,
            wait_sum_ms: 0.0,
            response: histogram(2),
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, response_ns: u64, wait_ns: u64) {
        let response_ms = response_ns as f64 / 1e6;
        self.response_sum_ms += response_ms;
        self.response_square_sum_ms2 += response_ms * response_ms;
        self.wait_sum_ms += wait_ns as f64 / 1e6;
        self.response.saturating_record(response_ns);
    }

    fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        self.retries += other.retries;
        self.retried += other.retried;
        self.skipped += other.skipped;
        self.response_sum_ms += other.response_sum_ms;
        self.response_square_sum_ms2 += other.response_square_sum_ms2;
        self.wait_sum_ms += other.wait_sum_ms;
        if !other.response.is_empty() {
            add(&mut self.response, &other.response);
        }
    }

    fn clear(&mut self) {
        (self.errors, self.retries) = (0, 0);
        (self.retried, self.skipped) = (0, 0);
        if !self.response.is_empty() {
            (self.response_sum_ms, self.response_square_sum_ms2) = (0.0, 0.0);
            self.wait_sum_ms = 0.0;
            self.response.reset();
        }
    }

    /// Adds what is told of the run so far.
    fn tell(&self, now: &mut KindProgress) {
        now.answered += self.response.len();
        now.retried += self.retried;
        now.skipped += self.skipped;
        now.response_sum_ms += self.response_sum_ms;
        now.response_square_sum_ms2 += self.response_square_sum_ms2;
        now.wait_sum_ms += self.wait_sum_ms;
    }

    fn quantile_ms(&self, quantile: f64) -> f64 {
        self.response.value_at_quantile(quantile) as f64 / 1e6
    }

    fn point(&self) -> PointKind {
        PointKind {
            completed: self.response.len(),
            errors: self.errors,
            retries: self.retries,
            p50_ms: self.quantile_ms(0.5),
            p90_ms: self.quantile_ms(0.9),
            max_ms: self.quantile_ms(1.0),
        }
    }
}

/// What one second, counted from the start of the measurement interval, brought.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) second: i64,
    pub(crate) kinds: Vec<WindowKind>,
}

impl Window {
    pub(crate) fn new(kinds: usize) -> Self {
        Self {
            second: i64::MIN,
            kinds: vec![WindowKind::new(); kinds],
        }
    }

    fn merge(&mut self, other: &Self) {
        for (mine, other) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(other);
        }
    }

    pub(crate) fn clear(&mut self, second: i64) {
        self.second = second;
        self.kinds.iter_mut().for_each(WindowKind::clear);
    }
}

/// The seconds that not every thread has left behind yet.
#[derive(Debug)]
pub(crate) struct Board(Mutex<Seconds>);

#[derive(Debug)]
struct Seconds {
    /// In order; mostly one or two.
    open: VecDeque<Window>,
    spare: Vec<Window>,
    /// For each thread, the second it is in; the largest number once it is through.
    reached: Vec<i64>,
    /// The latest second that any thread was in.
    latest: i64,
    kinds: usize,
}

impl Board {
    pub(crate) fn new(threads: usize, kinds: usize) -> Self {
        Self(Mutex::new(Seconds {
            open: VecDeque::new(),
            spare: Vec::new(),
            reached: vec![i64::MIN; threads],
            latest: i64::MIN,
            kinds,
        }))
    }

    /// Adds a thread's window and says which second the thread is in now.
    pub(crate) fn publish(&self, thread: usize, window: &Window, now_second: i64) {
        let mut seconds = self.lock();
        seconds.add(window, now_second);
        seconds.reached[thread] = now_second;
    }

    /// A thread is through.
    pub(crate) fn leave(&self, thread: usize, window: &Window) {
        let mut seconds = self.lock();
        seconds.add(window, window.second);
        seconds.reached[thread] = i64::MAX;
    }

    fn lock(&self) -> MutexGuard<'_, Seconds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seconds {
    fn add(&mut self, window: &Window, now_second: i64) {
        if window.second != i64::MIN {
            self.at(window.second).merge(window);
        }
        self.latest = self.latest.max(now_second);
    }

    fn at(&mut self, second: i64) -> &mut Window {
        let place = self.open.partition_point(|window| window.second < second);
        if self.open.get(place).is_none_or(|w| w.second != second) {
            let kinds = self.kinds;
            let mut window = self.spare.pop().unwrap_or_else(|| Window::new(kinds));
            window.clear(second);
            self.open.insert(place, window);
        }
        &mut self.open[place]
    }
}

/// Makes points of the seconds that all threads have left behind.
#[derive(Debug)]
pub(crate) struct Timeline {
    width_s: u32,
    /// The next second to be taken from the board.
    pub(crate) next: i64,
    /// Second in which the measurement interval ends.
    end: i64,
    /// What the point in the making has so far.
    point: Window,
    /// Seconds in it.
    filled: u32,
    pub(crate) points: Vec<Point>,
    pub(crate) kinds: Vec<KindProgress>,
}

impl Timeline {
    /// `first` is the second in which the first terminal starts, `end` the one in which the interval ends.
    pub(crate) fn new(kinds: usize, first: i64, end: i64) -> Self {
        let length_s = u64::try_from(end - first).unwrap_or(0);
        let width_s = u32::try_from(length_s.div_ceil(POINTS).max(1)).unwrap_or(u32::MAX);
        let mut point = Window::new(kinds);
        point.clear(first);
        Self {
            width_s,
            next: first,
            end,
            point,
            filled: 0,
            points: Vec::new(),
            kinds: vec![KindProgress::default(); kinds],
        }
    }

    /// Takes the seconds that are over. When all threads are through, the one in which the last of
    /// them left is not: it is left to [`Self::finish`].
    pub(crate) fn collect(&mut self, board: &Board) {
        let mut seconds = board.lock();
        let reached = seconds.reached.iter().copied().min().unwrap_or(i64::MIN);
        self.take_until(reached.min(seconds.latest), &mut seconds);
    }

    /// Takes what is left when all threads are through.
    pub(crate) fn finish(&mut self, board: &Board) {
        let mut seconds = board.lock();
        let end = seconds.latest.saturating_add(1);
        self.take_until(end, &mut seconds);
        if self.filled > 0 {
            self.finish_point();
        }
    }

    fn take_until(&mut self, end: i64, seconds: &mut Seconds) {
        while self.next < end {
            let front = seconds.open.front();
            let full = front.is_some_and(|window| window.second <= self.next);
            let window = if full { seconds.open.pop_front() } else { None };
            self.second(window.as_ref());
            seconds.spare.extend(window);
        }
    }

    fn second(&mut self, window: Option<&Window>) {
        let counts = (0..self.end).contains(&self.next);
        for (kind, now) in self.kinds.iter_mut().enumerate() {
            let point = window.map_or_else(PointKind::default, |w| w.kinds[kind].point());
            now.completed += if counts { point.completed } else { 0 };
            now.errors += point.errors;
            now.retries += point.retries;
            now.per_s = point.completed;
            now.p50_ms = point.p50_ms;
            now.p90_ms = point.p90_ms;
            if let Some(window) = window {
                window.kinds[kind].tell(now);
            }
        }
        if let Some(window) = window {
            self.point.merge(window);
        }
        self.next += 1;
        self.filled += 1;
        let full = self.points.len() as u64 >= POINTS;
        if self.filled == self.width_s && !full {
            self.finish_point();
        }
    }

    fn finish_point(&mut self) {
        self.points.push(Point {
            at_s: self.point.second,
            width_s: self.filled,
            kinds: self.point.kinds.iter().map(WindowKind::point).collect(),
        });
        self.point.clear(self.next);
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(second: i64, responses_ms: &[u64]) -> Window {
        let mut window = Window::new(1);
        window.clear(second);
        for ms in responses_ms {
            window.kinds[0].completed(ms * 1_000_000, 0);
        }
        window
    }

    fn completed(timeline: &Timeline) -> Vec<(i64, u64)> {
        let point = |p: &Point| (p.at_s, p.kinds[0].completed);
        timeline.points.iter().map(point).collect()
    }

    #[test]
    fn a_second_is_shown_when_every_thread_has_left_it() {
        let board = Board::new(2, 1);
        let mut timeline = Timeline::new(1, -1, 10);
        board.publish(0, &window(0, &[1, 2]), 1);
        timeline.collect(&board);
        assert_eq!(completed(&timeline), []);
        board.publish(1, &window(0, &[100]), 0);
        board.publish(1, &window(0, &[100]), 1);
        timeline.collect(&board);
        assert_eq!(completed(&timeline), [(-1, 0), (0, 4)]);
        assert_eq!(timeline.kinds[0].per_s, 4);
        assert!((timeline.kinds[0].p90_ms - 100.0).abs() < 1.0);
        assert!((timeline.points[1].kinds[0].max_ms - 100.0).abs() < 1.0);
    }

    #[test]
    fn a_second_without_answers_is_a_point_of_zero_and_the_end_is_kept() {
        let board = Board::new(1, 1);
        let mut timeline = Timeline::new(1, 0, 3);
        board.publish(0, &window(0, &[1]), 0);
        board.publish(0, &window(2, &[1]), 3);
        board.leave(0, &window(4, &[1]));
        timeline.collect(&board);
        // The second in which the last thread left was not lived to its end.
        assert_eq!((timeline.next, timeline.kinds[0].answered), (4, 2));
        timeline.finish(&board);
        timeline.finish(&board);
        assert_eq!(
            completed(&timeline),
            [(0, 1), (1, 0), (2, 1), (3, 0), (4, 1)]
        );
        // The last second lies beyond the interval.
        assert_eq!(timeline.kinds[0].completed, 2);
    }

    #[test]
    fn long_runs_have_wider_points_with_exact_quantiles() {
        let board = Board::new(1, 1);
        let mut timeline = Timeline::new(1, 0, 14_400);
        for second in 0..14_400 {
            let ms = if second % 2 == 0 { 1 } else { 100 };
            board.publish(0, &window(second, &[ms, ms, ms]), second + 1);
            timeline.collect(&board);
        }
        assert_eq!(timeline.points.len(), 7_200);
        assert!(
            timeline
                .points
                .iter()
                .all(|p| p.width_s == 2 && p.kinds[0].completed == 6)
        );
        assert!((timeline.points[0].kinds[0].p50_ms - 1.0).abs() < 0.02);
        assert!((timeline.points[0].kinds[0].p90_ms - 100.0).abs() < 1.0);
        assert_eq!(timeline.points[1].at_s, 2);
    }
}
