// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format of the Firefox Profiler (profiler.firefox.com): threads as tracks with their use of a processor, categories by
//! language, waits and labels as markers.

use std::collections::HashMap;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerTiming, Profile, ReferenceTimestamp, SamplingInterval, StackHandle, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use onstack_profile::view::Language;
use onstack_profile::Plain;

use super::marks::{self, What};
use super::{Point, Timeline};

struct Wait {
    name: StringHandle,
    texts: [StringHandle; 4],
}

struct Label {
    name: StringHandle,
    value: StringHandle,
}

const fn field(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format: MarkerFieldFormat::String, flags: MarkerFieldFlags::SEARCHABLE }
}

impl StaticSchemaMarker for Wait {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "wait";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.on}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.on}");
    const FIELDS: &'static [StaticSchemaMarkerField] =
        &[field("state", "State"), field("wait", "Call"), field("on", "On"), field("holder", "Held by")];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }
    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }
    fn string_field_value(&self, index: u32) -> StringHandle {
        self.texts[index as usize]
    }
    fn number_field_value(&self, _: u32) -> f64 {
        0.0 // it has no such field
    }
}

impl StaticSchemaMarker for Label {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "label";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.value}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.value}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[field("value", "Value")];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }
    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }
    fn string_field_value(&self, _: u32) -> StringHandle {
        self.value
    }
    fn number_field_value(&self, _: u32) -> f64 {
        0.0 // it has no such field
    }
}

fn color(language: Language) -> CategoryColor {
    match language {
        Language::C => CategoryColor::Blue,
        Language::Cpp => CategoryColor::Purple,
        Language::Rust => CategoryColor::Orange,
        Language::Go => CategoryColor::LightBlue,
        Language::Interpreted => CategoryColor::Yellow,
        Language::Generated => CategoryColor::Green,
        _ => CategoryColor::Gray,
    }
}

/// What is being written, with what it has already.
struct Writer<'t, 'a> {
    timeline: &'t Timeline<'a>,
    profile: Profile,
    /// Of each function.
    frames: Vec<(StringHandle, CategoryPairHandle)>,
}

/// Moments before the start are rounded to it.
fn timestamp(at: i64) -> Timestamp {
    Timestamp::from_nanos_since_reference(u64::try_from(at).unwrap_or(0))
}

impl Writer<'_, '_> {
    fn text(&mut self, text: &str) -> StringHandle {
        self.profile.intern_string(&Plain(text).to_string())
    }

    fn stack(&mut self, thread: ThreadHandle, stack: usize) -> Option<StackHandle> {
        let frames: Vec<_> =
            self.timeline.stacks[stack].frames.iter().map(|&frame| self.frames[frame as usize]).collect();
        let info = frames.into_iter().map(|(name, category_pair)| FrameInfo {
            frame: Frame::Label(name),
            category_pair,
            flags: FrameFlags::empty(),
        });
        self.profile.intern_stack_frames(thread, info)
    }

    /// A sample says what was done since the one before it. So where nothing was, for as long as a period, one without a stack
    /// comes between.
    fn samples(&mut self, thread: ThreadHandle, points: &[Point]) {
        let (mut stacks, mut until) = (HashMap::new(), None);
        for point in points {
            let stack = *stacks.entry(point.stack).or_insert_with(|| self.stack(thread, point.stack));
            let begin = point.at.saturating_sub(point.lasts);
            if until.is_none_or(|until| begin - until > self.timeline.period) {
                self.profile.add_sample(thread, timestamp(begin), None, CpuDelta::ZERO, 0);
            }
            let runs = self.timeline.is_cpu || self.timeline.stacks[point.stack].runs();
            let since = point.at - until.unwrap_or(begin).max(begin);
            let used = if runs { u64::try_from(since).unwrap_or(0) } else { 0 };
            let weight = i32::try_from(point.weight).unwrap_or(i32::MAX);
            self.profile.add_sample(thread, timestamp(point.at), stack, CpuDelta::from_nanos(used), weight);
            until = Some(point.at);
        }
    }

    fn markers(&mut self, thread: ThreadHandle, points: &[Point]) {
        for mark in marks::of(self.timeline, points) {
            let timing = MarkerTiming::Interval(timestamp(mark.begin), timestamp(mark.end));
            match mark.what {
                What::Wait(texts) => {
                    let name = if texts[1].is_empty() { texts[0] } else { texts[1] };
                    let name = self.text(name);
                    let texts = texts.map(|text| self.text(text));
                    self.profile.add_marker(thread, timing, Wait { name, texts });
                }
                What::Label(key, value) => {
                    let (name, value) = (self.text(key), self.text(value));
                    self.profile.add_marker(thread, timing, Label { name, value });
                }
            }
        }
    }
}

/// The profile as JSON.
pub fn bytes(timeline: &Timeline<'_>, title: &str) -> Vec<u8> {
    let start = Duration::from_nanos(u64::try_from(timeline.start).unwrap_or(0));
    let period = SamplingInterval::from_nanos(timeline.period.unsigned_abs());
    let mut profile = Profile::new(title, ReferenceTimestamp::from_duration_since_unix_epoch(start), period);
    profile.set_symbolicated(true);
    profile.set_os_name("Linux");
    let mut categories = HashMap::new();
    let mut frames = Vec::with_capacity(timeline.functions.len());
    for function in &timeline.functions {
        let language = function.language;
        let category =
            *categories.entry(language).or_insert_with(|| profile.add_category(language.name(), color(language)));
        frames.push((profile.intern_string(&Plain(&function.name).to_string()), category.into()));
    }
    let mut writer = Writer { timeline, profile, frames };
    let mut process = None;
    for track in &timeline.tracks {
        let key = (&track.process, track.process_id);
        if process.as_ref().is_none_or(|&(known, _)| known != key) {
            let name = Plain(track.process_title(timeline)).to_string();
            process = Some((key, writer.profile.add_process(&name, track.process_id, timestamp(0))));
        }
        let Some((_, handle)) = process else { continue };
        let begin = track.points.first().map_or(0, |point| point.at - point.lasts);
        let thread = writer.profile.add_thread(handle, track.id, timestamp(begin), track.is_first);
        writer.profile.set_thread_name(thread, &Plain(&track.name).to_string());
        writer.profile.set_thread_show_markers_in_timeline(thread, true);
        writer.samples(thread, &track.points);
        writer.markers(thread, &track.points);
    }
    // Its own maps have texts as keys, and a vector takes all.
    serde_json::to_vec(&writer.profile).unwrap_or_default()
}
