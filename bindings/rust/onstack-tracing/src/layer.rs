// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layer: each span holds the labels of itself and its ancestors, and the thread has those of its innermost span.

use onstack::label::{replace_span, Labels};
use onstack::Result;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::Subscriber;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::values::{Chosen, Values};

/// Turns chosen fields of spans into labels while the spans are entered; from [`LabelLayer::builder`].
#[derive(Clone, Debug)]
pub struct LabelLayer {
    fields: Vec<Chosen>,
    name: Option<String>,
}

/// Chooses what becomes a label.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    fields: Vec<Chosen>,
    name: Option<String>,
}

impl LabelLayer {
    /// Nothing is chosen yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// To the span's own labels, and those of its ancestors, if there are any.
    fn keep<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>, labels: Option<Labels>) {
        if let Some(labels) = labels {
            span.extensions_mut().replace(SpanLabels(labels));
        }
    }
}

impl Builder {
    /// The field of that name is a label under its own name.
    pub fn field(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.field_as(name.clone(), name)
    }

    /// The field of that name is a label under another [key](onstack::label#keys).
    pub fn field_as(mut self, name: impl Into<String>, key: impl Into<String>) -> Self {
        self.fields.push(Chosen { field: name.into(), key: key.into() });
        self
    }

    /// The span's name is a label too, under that [key](onstack::label#keys).
    pub fn span_name(mut self, key: impl Into<String>) -> Self {
        self.name = Some(key.into());
        self
    }

    /// The layer, for [`with`](tracing_subscriber::layer::SubscriberExt::with).
    ///
    /// # Errors
    /// [`onstack::Error::Options`] with the key that no label can have.
    pub fn build(self) -> Result<LabelLayer> {
        Labels::new(self.fields.iter().map(|chosen| &chosen.key).chain(&self.name).map(|key| (key, "")))?;
        Ok(LabelLayer { fields: self.fields, name: self.name })
    }
}

/// In the extensions of a span.
struct SpanLabels(Labels);

fn labels_of<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<Labels> {
    span.extensions().get::<SpanLabels>().map(|labels| labels.0.clone())
}

/// The thread has the labels of that span.
fn show<S: for<'a> LookupSpan<'a>>(span: Option<SpanRef<'_, S>>) {
    replace_span(span.and_then(|span| labels_of(&span)));
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LabelLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut values = Values::of(&self.fields);
        attributes.record(&mut values);
        if let Some(key) = &self.name {
            values.add(key, format_args!("{}", attributes.metadata().name()));
        }
        let outer = span.parent().and_then(|parent| labels_of(&parent));
        Self::keep(&span, values.labels(outer.as_ref()));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut values = Values::of(&self.fields);
        record.record(&mut values);
        let before = labels_of(&span);
        Self::keep(&span, values.labels(before.as_ref()));
        // Other threads that are in it show it when they enter it next.
        if context.lookup_current().is_some_and(|current| current.id() == *id) {
            show(Some(span));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        show(context.span(id));
    }

    /// The registry has left it already; spans may be left in any order.
    fn on_exit(&self, _id: &Id, context: Context<'_, S>) {
        show(context.lookup_current());
    }
}
