//! The checks that both RPCs have.

/// Declares the rules for the answers of one RPC, and the checks that it has in common with the other one. A function
/// cannot do it, because ids are constants. `question` is a function that returns a request about a snapshot with data.
macro_rules! common_checks {
    (
        $id:literal, $rpc:literal, $request:ty, $question:path;
        ends_behind_offset: $ends_behind_offset:path,
        style: $style:path,
        fixed_length: $fixed_length:path,
        capacity: $capacity:path,
        max_results: $max_results:path,
        offset: $offset:path,
        order: $order:path,
        order_of_messages: $order_of_messages:path,
        failure: $failure:path,
        invalid: $invalid:path,
        not_found: $not_found:path,
        out_of_range: $out_of_range:path,
    ) => {
        impl Question for $request {
            const RULES: &'static Rules = &Rules {
                ends_behind_offset: &$ends_behind_offset,
                style: &$style,
                fixed_length: &$fixed_length,
                capacity: &$capacity,
                max_results: &$max_results,
                offset: &$offset,
                order: &$order,
                order_of_messages: &$order_of_messages,
                failure: &$failure,
                invalid: &$invalid,
                not_found: &$not_found,
                out_of_range: &$out_of_range,
            };

            fn with(&self, starting_offset: i64, max_results: i32) -> Self {
                Self { starting_offset, max_results, ..self.clone() }
            }
        }

        check! {
            /// A caller that reads at the offset of a tuple has to find the block there.
            IN_VOLUME {
                id: concat!("metadata/", $id, "/tuples-in-volume"),
                title: concat!("each tuple of ", $rpc, " is a range of bytes of the volume"),
                spec: [req::META_FORMAT_002, req::META_FORMAT_003],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-offset-at-end", "get-metadata-empty-ranges"],
            }
            async |cx| { judge::tuples_lie_in_the_volume(cx, &$question(cx).await?).await }
        }

        check! {
            /// Callers store blocks in order, and continue after the last one.
            ORDER {
                id: concat!("metadata/", $id, "/order"),
                title: concat!("the tuples of ", $rpc, " ascend without overlap, within a message and across messages"),
                spec: [$order, $order_of_messages],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-unordered", "get-metadata-overlaps", "get-metadata-messages-overlap"],
            }
            async |cx| { judge::tuples_rise(cx, &$question(cx).await?).await }
        }

        check! {
            /// A caller decides by the first message how to read the others.
            STYLE {
                id: concat!("metadata/", $id, "/style"),
                title: concat!("each message of ", $rpc, " has the same block_metadata_type"),
                spec: [$style],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-type-unknown", "get-metadata-type-changes"],
            }
            async |cx| { judge::style_stays(cx, &$question(cx).await?).await }
        }

        check! {
            /// A caller that relies on the style reads only the offsets.
            FIXED_LENGTH {
                id: concat!("metadata/", $id, "/fixed-length"),
                title: concat!("the tuples of ", $rpc, " have one size if the style is FIXED_LENGTH"),
                spec: [$fixed_length, req::META_FORMAT_004],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-sizes-vary", "get-metadata-last-block-short"],
            }
            async |cx| { judge::fixed_length_is_fixed(cx, &$question(cx).await?).await }
        }

        check! {
            /// A restore needs a volume at least as large.
            CAPACITY {
                id: concat!("metadata/", $id, "/capacity"),
                title: concat!("each message of ", $rpc, " has the same volume_capacity_bytes"),
                spec: [$capacity],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-capacity-zero", "get-metadata-capacity-changes"],
            }
            async |cx| { judge::capacity_stays(cx, &$question(cx).await?).await }
        }

        check! {
            /// A caller may have little memory.
            MAX_RESULTS {
                id: concat!("metadata/", $id, "/max-results"),
                title: concat!("a message of ", $rpc, " has at most max_results tuples, and the stream is complete"),
                spec: [$max_results, req::META_STREAM_001],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-ignores-max-results", "get-metadata-ends-early"],
            }
            async |cx| { judge::max_results_is_kept(cx, &$question(cx).await?).await }
        }

        check! {
            /// Without starting_offset, a broken stream has to be read from the beginning.
            STARTING_OFFSET {
                id: concat!("metadata/", $id, "/starting-offset"),
                title: concat!($rpc, " lists every block from starting_offset on, and none before it"),
                spec: [$ends_behind_offset, $offset],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-ignores-offset", "get-metadata-resume-skips-block"],
            }
            async |cx| { judge::offset_is_kept(cx, &$question(cx).await?).await }
        }

        check! {
            /// A block between two parts of a stream would be missing in the backup.
            CONTINUED {
                id: concat!("metadata/", $id, "/continued"),
                title: concat!("a stream of ", $rpc, " that was cut off can be continued without a gap"),
                spec: [req::META_STREAM_005, req::META_STREAM_001],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-resume-skips-block"],
                duplicate_of: concat!("metadata/", $id, "/starting-offset"),
            }
            async |cx| { judge::can_be_continued(cx, &$question(cx).await?).await }
        }

        check! {
            /// Callers leave in the middle of a stream, and the driver has to end its work for them.
            CUT_OFF {
                id: concat!("metadata/", $id, "/cut-off"),
                title: concat!($rpc, " still works after streams were cut off"),
                spec: [req::META_STREAM_003],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-stuck-after-cut"],
            }
            async |cx| { judge::serves_after_cuts(cx, &$question(cx).await?).await }
        }

        check! {
            /// An empty stream would be taken for the end of the volume.
            OUT_OF_RANGE {
                id: concat!("metadata/", $id, "/offset-out-of-range"),
                title: concat!($rpc, " from a negative offset, or from one beyond the end, is OUT_OF_RANGE"),
                spec: [$out_of_range],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["get-metadata-accepts-any-offset", "get-metadata-offset-as-internal"],
            }
            async |cx| { judge::offsets_outside_are_refused(cx, &$question(cx).await?).await }
        }

        check! {
            /// Some drivers crash on a negative number of tuples.
            NEGATIVE_MAX_RESULTS {
                id: concat!("metadata/", $id, "/negative-max-results"),
                title: concat!($rpc, " with negative max_results is rejected"),
                spec: [$invalid],
                needs: [SNAPSHOT_METADATA_SERVICE, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME],
                refuted_by: ["invalid-argument-as-internal"],
                runs: CrashProne,
            }
            async |cx| { judge::negative_max_results(cx, &$question(cx).await?).await }
        }
    };
}

pub(super) use common_checks;
