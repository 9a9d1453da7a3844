//! Members in the order of their names.

use core::ops::Range;

/// The objects whose members must move, found while the document is transcribed in the order of its source.
///
/// Nothing moves until the whole document is read: then every byte is copied once, however deep it is nested.
#[derive(Default)]
pub(super) struct Arrangement {
    objects: Vec<Shuffled>,
    segments: Vec<Segment>,
}

/// A member as it stands in the transcript.
pub(super) struct Segment {
    pub(super) span: Range<usize>,
    /// Whether an object inside it must be put in order too.
    pub(super) nested: bool,
}

/// One object: where its members stand, and which segments take their place.
struct Shuffled {
    /// From the opening brace to before the closing one.
    span: Range<usize>,
    segments: Range<usize>,
}

/// A place to go back to when what was read since does not count.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    objects: usize,
    segments: usize,
}

impl Arrangement {
    pub(super) fn mark(&self) -> Mark {
        Mark { objects: self.objects.len(), segments: self.segments.len() }
    }

    pub(super) fn rewind(&mut self, mark: Mark) {
        self.objects.truncate(mark.objects);
        self.segments.truncate(mark.segments);
    }

    /// The number of objects that must be put in order, so far.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Says that these segments, in this order, are the members of the object whose opening brace starts `span`.
    pub(super) fn shuffle(&mut self, span: Range<usize>, members: impl Iterator<Item = Segment>) {
        let first = self.segments.len();
        if self.segments.capacity() == 0 {
            self.segments.reserve(64);
            self.objects.reserve(16);
        }
        self.segments.extend(members);
        self.objects.push(Shuffled { span, segments: first..self.segments.len() });
    }

    /// Puts all members in their places.
    pub(super) fn apply(mut self, transcript: Vec<u8>) -> Vec<u8> {
        if self.objects.is_empty() {
            return transcript;
        }
        self.objects.sort_unstable_by_key(|object| object.span.start);
        let mut out = Vec::with_capacity(transcript.len());
        self.copy(&transcript, 0..transcript.len(), &mut out);
        out
    }

    /// Copies a stretch of the transcript, members in order. Recursion goes as deep as objects are nested, which the
    /// reader has bounded.
    fn copy(&self, transcript: &[u8], stretch: Range<usize>, out: &mut Vec<u8>) {
        let mut at = stretch.start;
        while let Some(object) = self.next_object(at).filter(|object| object.span.start < stretch.end) {
            out.extend_from_slice(&transcript[at..=object.span.start]);
            for segment in &self.segments[object.segments.clone()] {
                if segment.nested {
                    self.copy(transcript, segment.span.clone(), out);
                } else {
                    out.extend_from_slice(&transcript[segment.span.clone()]);
                }
            }
            at = object.span.end;
        }
        out.extend_from_slice(&transcript[at..stretch.end]);
    }

    fn next_object(&self, at: usize) -> Option<&Shuffled> {
        self.objects.get(self.objects.partition_point(|object| object.span.start < at))
    }
}
