"""README, SECURITY.md and docs/: what they promise stands beside the tests that hold it, and numbers are the program's.

A sentence that is put otherwise is put otherwise here, too; a test that goes is missed here. Sentences about how things
are computed are held by the tests of these things and are not listed, tables of measurements by the commands beside them.
"""
# ruff: noqa: E501 (a sentence, or a test, is one piece)

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import axiompath
from axiompath.blame.blame import ALWAYS_EXACT
from axiompath.explain import question, walks
from axiompath.explain.explanation import DISAGREEMENT
from axiompath.graphs import sample, windows
from axiompath.graphs.labels import ABSENT, ANY
from axiompath.scan import engines, facts, plan, work
from axiompath.selection import METHODS
from axiompath.sequences import training, watch
from axiompath.storage import safe
from axiompath.storage.parquet_pages import MAX_COLUMNS

ROOT = Path(__file__).parent.parent

# page -> a sentence, or a part of one -> the tests that hold it
PROMISES = {
    "README.md": {
        "The shares sum to the change to rounding (the residual is a number you get)":
            "attribution::contributions_sum_to_the_change_of_every_logit targets::a_thousand_evolutions_hold_all_of_it",
        "split by cause: connections gained, connections lost, side effects of renormalisation, features":
            "attribution::causes_name_what_happened",
        "each change's Shapley share of the prediction's change": "blame::blame_equals_brute_force",
        "the fewest changes whose undoing gives the old class back, judged by your own model":
            "undo::undo_equals_brute_force undo::a_model_in_float32_has_the_last_word",
        "also one that cannot be read": "blame::a_model_that_no_reader_understands_is_blamed_without_paths",
        "splits a change between [a retrained model and the graph]":
            "retrained::shares_of_model_and_data_are_those_of_two_players",
        "`features` says which columns of changed features did it":
            "features::columns_equal_the_literal_twin_and_sum_to_the_cause",
        "as few as explain nine tenths of the change (or as many as you say)":
            "enough::the_default_is_nine_tenths_and_a_budget_takes_precedence",
        "chosen with a certified bound (`exact`, or the paper's `convex`)": "selection::bound_is_below_every_choice",
        "**Edges, or edges of single layers, in place of paths**": "units::shares_are_those_of_listed_paths",
        "the summary warns where that falls short of what the sums explain":
            "explanation::the_summary_says_what_the_network_itself_answers",
        "records that say what they are of: release, model and graphs by digest":
            "origin::explanations_say_what_they_are_of origin::scans_say_what_they_are_of",
        "links, whole graphs, one logit, labels, values, nodes that are new, one graph against itself without edges":
            "every_task::a_pair_is_a_target every_task::a_graph_is_one_target "
            "every_task::every_output_is_explained_in_its_own_words "
            "every_task::a_new_node_is_explained_against_itself_alone "
            "every_task::one_graph_is_explained_against_itself_without_edges",
        "**A story over a sequence of snapshots**, of a node, a link or a graph: every step explained, and the steps sum":
            "story::contributions_of_consecutive_steps_sum_to_the_change_from_first_to_last "
            "story_of_all::a_story_says_what_the_model_says_and_its_steps_sum",
        "killed and started again it writes the same bytes":
            "scan::killed_at_a_hundred_moments_it_goes_on_to_the_same_bytes",
        "Graphs larger than memory are read from disk":
            "stored::peak_memory_follows_the_budget_and_not_the_number_of_edges",
        "nodes that exist in one snapshot alone (matched by `n_id`)":
            "reading::nodes_of_one_snapshot_alone_are_matched_by_n_id",
        "Parallel edges add up, as in PyG": "reading::duplicate_edges_add_up_as_in_pyg",
        "Sparse features stay sparse": "datasets::sparse_features_of_coauthor_physics_stay_under_3_gb",
        "the best are found without listing the others":
            "pricing::the_best_are_those_of_a_list_and_a_search_that_is_given_up_says_what_it_missed",
        "What cannot be read exactly is refused with the name of the module or the field, the reason and what to do":
            "people_models::what_cannot_be_read_is_refused_by_name_with_a_reason_and_a_way_out",
        "Your model is never altered": "reading::the_users_model_and_data_are_left_as_they_were_even_after_an_error",
        "Only tensors, numbers and text are ever loaded, and no file can run code":
            "strangers::no_pt_file_runs_code hostile::no_file_does_harm",
    },
    "SECURITY.md": {
        "A folder (typed tables, snapshots) is bounded as one file of that size":
            "snapshots::many_large_snapshots_of_a_small_file_are_refused strangers::tables_of_types_are_bounded_together",
        "Nothing of a request comes back in what it answers to one that it does not understand":
            "server::a_browser_that_has_gone_is_no_error_and_nothing_of_a_request_comes_back",
        "**No file runs code.** Only tensors, numbers and text are loaded":
            "hostile::no_file_does_harm files::a_broken_graph_is_refused_and_no_code_runs",
        "any other name in the file is refused before it is loaded": "strangers::no_pt_file_runs_code",
        "A model folder can only name networks of `torch_geometric.nn` and three of our own":
            "files::ones_own_class_is_named_never_described watch::links_need_no_labels",
        "**Nothing of yours is overwritten in a folder that a command fills.**":
            "scan::nothing_of_somebody_elses_is_touched watch::a_watch_touches_nothing_of_somebody_elses "
            "snapshots::a_folder_of_snapshots_is_written_anew_and_nothing_else_in_it_is_touched "
            "cli::a_demonstration_overwrites_nothing_of_yours",
        "**Indices, shapes and sizes are checked once**":
            "strangers::a_sparse_tensor_with_indices_out_of_range_is_refused_without_a_crash hostile::no_file_does_harm",
        "An internal error of ours is never reported as a damaged file": "strangers::an_error_of_ours_is_no_damaged_file",
        "**Every read has a bound in memory**, and it holds for what is made of a file, not for what its header says":
            "strangers::a_small_file_cannot_grow_without_end",
        "Nothing that is no plain file (a pipe, a device) is waited for": "hostile::no_file_does_harm",
        "**A file that cannot be used is refused in one sentence**, an `InputError`, and exit code 2":
            "hostile::every_file_made_by_hand_is_refused_in_one_sentence cli::a_wrong_question_is_a_sentence_and_exit_code_2",
        "What your own code raises is shown as yours": "strangers::what_your_own_code_raises_is_yours",
        "**A scan's manifest names files of its own folder alone**, each with its SHA-256, checked whenever it is read":
            "strangers::a_manifest_names_nothing_outside_its_folder strangers::every_file_of_a_scan_has_a_digest "
            "scan::a_flipped_bit_is_found_at_reading",
        "In a report they are text": "report::names_are_text_never_markup story::names_are_text_never_markup",
        "the characters in them that would command it are shown as �": "strangers::names_command_no_terminal",
        "listens on 127.0.0.1 alone, answers GET and HEAD, and writes nothing":
            "server::it_listens_on_this_machine_alone server::nothing_but_reading_is_answered "
            "server::requests_for_other_hosts_are_refused server::requests_of_other_sites_are_refused",
        "None may end the process, hang, take a gigabyte, raise anything but an `InputError`, exit with 1, or run code":
            "hostile::no_file_does_harm",
    },
    "docs/how-to-scan.md": {
        "Then all of them in a table that sorts and filters": "scan_report::the_table_sorts_filters_and_opens_pages",
        "It takes the folder of a scan, of the scans of a sequence, or of a [watch]":
            "watch::a_list_of_events_becomes_a_report",
        "the first causes on the page, as many as were planted, are the planted ones in at least 95 of 100 draws":
            "planted_page::planted_causes_are_named_first_in_95_of_100_draws",
        "(`sha256sum -c *.sha256` checks them all)": "scan::the_records_of_parts_are_those_of_sha256sum",
        "Every node that an altered path reaches is found and listed": "scan::finds_and_explains_what_a_plain_loop_does",
        "Explained are those whose **class changed** and those whose distribution moved by at least `min_kl` nats":
            "scan::thresholds_decide_who_is_explained scan::zero_is_zero",
        "`explainer.scan()` writes to a temporary one that goes with the result":
            "scan::without_a_folder_nothing_is_left_behind",
        "**The same scan always writes the same bytes**, with one worker or many":
            "scan::the_number_of_workers_changes_no_byte scan::the_size_of_batches_changes_no_byte "
            "ray::ray_writes_the_bytes_that_local_processes_write",
        "parts that are there are kept, the rest is done": "scan::parts_that_are_there_are_not_computed_again",
        "reading the scan says so; run the same command again: what has another digest than the recorded one is made again":
            "scan::a_flipped_bit_is_found_at_reading scan::a_damaged_part_is_made_again_and_never_blessed",
        "the workers are ended first, then the scan; no drafts are left, and the same command goes on":
            "scan::signals_stop_a_scan_in_good_order",
        "took no processor time at all it is replaced, as one that died":
            "scan::a_worker_that_shows_no_life_is_replaced_and_its_part_done_again",
        "another takes its place and does the part again": "scan::a_worker_that_dies_is_replaced_and_its_part_done_again",
        "one at which a worker dies alone is recorded with that reason":
            "scan::a_target_at_which_every_worker_dies_is_recorded_and_stops_no_other",
        "its row says why (`scan.failures()`), the others are explained":
            "scan::a_target_that_fails_is_recorded_with_its_reason",
        "the scan stops with a sentence. A part appears under its name only when the disk has all of it":
            "scan::a_full_disk_leaves_no_part_that_is_not_whole",
        "the second is refused; the first holds a lock that goes with its process, however that ends":
            "scan::two_scans_do_not_write_to_one_folder writing::a_lock_goes_with_its_process_even_if_workers_live_on",
        "the folder is refused before anything is made there; other files (a readme) are left alone":
            "scan::a_name_that_is_taken_is_refused_before_anything_is_made scan::what_is_no_plain_file_is_somebodys "
            "scan::other_files_are_left_alone scan::nothing_of_somebody_elses_is_touched",
        "nothing is written, so the disk may be read-only": "scan::a_finished_scan_is_run_again_without_writing",
        "`memory` bounds what all workers together take": "scan::all_workers_together_stay_within_the_budget "
            "scan::workers_whose_batches_are_full_stay_within_the_budget "
            "scan::no_more_parts_run_at_a_time_than_the_budget_holds",
        "forked from a fresh interpreter that has one thread and never runs your script":
            "scan::nobody_who_has_threads_is_forked",
        "threads of yours, compiling or not, cannot hang them":
            "scan::a_scan_while_another_thread_compiles_does_not_hang",
        "a daemonic process may scan, too": "scan::a_daemonic_process_may_scan",
        "When your process ends, however it ends, they end":
            "scan::killed_at_ten_moments_it_goes_on_to_the_same_bytes",
        "the scan runs on one core in your process, and a warning says so":
            "scan::workers_that_cannot_read_the_model_are_not_used",
        "so a scan writes the same with any budget": "pricing::a_scan_writes_the_same_whatever_its_memory_and_workers",
        "it is listed with its number of paths and the bytes it would take":
            "scan::targets_too_large_are_listed_with_their_counts",
        "Three graphs or more are scanned step by step, each step into a folder of its own":
            "scan::a_sequence_is_scanned_step_by_step",
        "`to_frame()` has what one filters by": "views::the_scan_frame_has_what_one_filters_by",
        "how much they carry together is said": "scan_report::statements_do_not_overlap_and_carry_what_they_say",
        "and all shares sum to what moved": "scan_report::parts_by_cause_and_by_change_sum_to_everything",
        "of those that carry nine tenths of that, the one of the fewest changes":
            "scan_report::the_smallest_group_that_carries_as_much_is_named",
        "a chosen path's share goes to the changes that it runs over; where it is merely renormalised, to the edges that made the degrees":
            "scan_report::paths_are_credited_as_the_literal_twin_does",
        "`by=` adds groups of yours": "scan_report::groups_of_the_users_own_are_named",
        "by three deviations above the median": "scan_report::a_step_far_above_the_others_is_unusual",
        "serves the same page, with one for every explanation, from this machine to this machine":
            "server::it_listens_on_this_machine_alone server::every_row_opens_in_a_browser_and_names_do_nothing",
        "The summary says how many moved and were not explained, and why":
            "views::a_scan_says_why_not_all_were_explained",
    },
    "docs/how-to-events.md": {
        "and other periods, another start or task are refused": "watch::new_events_are_new_steps_and_no_others",
        "of which at most 1,000 are told apart": "watch::labels_that_are_names_are_refused",
        "of fewer events than that 1,000": "snapshots::refusals_say_what_to_do",
        "a small file cannot become many large graphs": "snapshots::many_large_snapshots_of_a_small_file_are_refused",
        "a pair has an edge for each kind": "snapshots::an_edge_a_pair_and_relation_is_what_each_relation_alone_makes",
        "the commonest of the first window, and puts all others into one":
            "snapshots::rare_relations_are_one_and_later_events_change_none",
        "RGCN where `--relation` tells kinds of events apart": "watch::kinds_of_events_are_relations",
        "finds and explains every prediction that moved from each snapshot to the next, and writes `watched/report.html`":
            "watch::a_list_of_events_becomes_a_report",
        "A watch that was stopped, wherever it was, goes on when it is run again":
            "watch::a_watch_that_was_stopped_anywhere_goes_on",
        "where one has a name that the watch would write, it refuses before it writes anything":
            "watch::a_watch_touches_nothing_of_somebody_elses",
        "it replaces the snapshots that it wrote there and nothing else":
            "snapshots::a_folder_of_snapshots_is_written_anew_and_nothing_else_in_it_is_touched",
        "a folder in which writing them was stopped is refused by every other command until they are made again":
            "snapshots::snapshots_that_were_stopped_are_no_mixture_and_are_made_again",
        "it does the steps that are new and no others; the model stays the same":
            "watch::new_events_are_new_steps_and_no_others",
        "what moves a prediction is then edges alone": "watch::clues_are_the_only_features_and_never_change",
        "Links (`--task links`, or no labels)": "watch::links_need_no_labels",
        "a model to use instead": "watch::a_model_that_is_given_is_not_trained",
        "beside always giving the commonest answer": "watch::a_poor_model_is_said_to_be_one",
        "into a folder that every command takes in place of its graphs":
            "snapshots::the_command_line_makes_a_folder_that_every_command_takes",
        "commas, semicolons, bars or tabs, told by the first line": "snapshots::csv_of_every_kind",
        "a pandas DataFrame, an Arrow table": "snapshots::tables_in_memory_and_on_disk_say_the_same",
        "one a snapshot, without times": "snapshots::graphs_in_a_list",
        "`src`, `dst`, `t`; `weight=\"msg\"` where messages are one number":
            "snapshots::a_temporal_data_and_a_graph_with_times",
        "Ids may be words or numbers and are kept as they are written (`007` is not `7`)":
            "snapshots::odd_rows_are_left_out_and_counted",
        "Dates that could be read in two ways (`01/02/2024`) are refused": "snapshots::refusals_say_what_to_do",
        "are left out, and a warning counts them": "snapshots::odd_rows_are_left_out_and_counted",
        "A window holds the events from its start up to, and without, its end":
            "snapshots::windows_hold_what_a_literal_reading_finds",
        "new events never change a snapshot that was made": "snapshots::new_events_change_no_snapshot_that_is_there",
        "A window without events is a graph without edges": "snapshots::an_empty_window_has_its_nodes_and_no_edge",
        "a node has one number in all snapshots, and later events renumber none":
            "snapshots::windows_hold_what_a_literal_reading_finds snapshots::new_events_change_no_snapshot_that_is_there",
    },
    "docs/how-to-pyg.md": {
        "`PyGAlgorithm` is an algorithm for PyG's own Explainer": "pyg::an_explanation_passes_pygs_own_checks_and_tools",
        "`explanation_type` must be `model`, `edge_mask_type` `object` and `node_mask_type` None":
            "pyg::what_it_cannot_do_is_refused_when_it_is_connected",
        "Without `index`, everything that moved is explained": "pyg::several_nodes_or_all_that_changed",
        "PyG hands over no `n_id`, so that rows are nodes": "names::pyg_gives_no_ids_so_before_must_have_none",
    },
    "docs/how-to-large-graphs.md": {
        "Its files are linked, not copied": "stored::features_of_another_graph_are_linked_and_take_no_space",
        "The folder appears under its name once it is complete; one that is there is never overwritten":
            "stored::what_cannot_be_converted_is_refused_and_leaves_nothing_behind",
        "tests hold it to 1e-12": "region::a_region_gives_the_whole_graphs_answers",
        "A target that no change reaches is refused with a sentence": "stored::targets_that_no_change_reaches_are_refused",
        "Targets are walked in batches that fit, so the peak follows the budget and not the number of targets":
            "attribution::estimated_memory_bounds_what_the_arrays_take",
        "Refused, with its count and the estimate before anything is walked, is `attribute` of such a node":
            "attribution::a_target_beyond_the_memory_budget_is_refused_with_its_numbers",
        "stays under 3 GB in all": "datasets::sparse_features_of_coauthor_physics_stay_under_3_gb",
    },
    "docs/how-to-your-own-data.md": {
        "Every question takes a name in place of a number; a name that two nodes have is refused":
            "names::every_question_takes_a_name names::a_name_of_two_nodes_is_refused",
        "and any `Data` with a field `node_names` (one a row) bring their names along":
            "names::names_that_graphs_bring_along_go_into_stories_and_scans",
        "With all neighbours taken (`num_neighbors=[-1, -1]`) the seeds have the logits, paths and blame that they have in the whole graphs":
            "loaded::a_pair_of_loaded_subgraphs_is_explained_as_the_whole_graphs_are",
        "An edge that changes its relation is one removed and one added":
            "types::blocks_of_an_rgcn_are_written_out_and_a_retyped_edge_is_one_lost_and_one_gained",
        "Two files that have names but no `n_id` are matched by name": "files::graphs_are_matched_by_name",
        "a folder | of several node types": "types::a_folder_of_tables_and_a_saved_hetero_data_are_graphs",
        "`n_id` in one graph alone is refused": "names::ids_on_one_side_alone_are_refused",
        "matched by row all the same, with a warning": "names::graphs_of_different_sizes_matched_by_row_are_warned_of",
        "Names in a row belong to the snapshot that has as many rows as there are names":
            "names::names_go_with_the_snapshot_of_as_many_rows",
        "Missing names (`None`, NaN) leave the node's number": "names::a_name_may_be_missing",
        "no other object in it is ever made": "strangers::no_pt_file_runs_code",
        "In Parquet, the `id` may also be the index that pandas wrote":
            "strangers::a_node_table_may_have_its_ids_as_the_index_of_pandas",
        "Complex numbers are refused": "strangers::complex_numbers_keep_their_imaginary_part_by_being_refused",
        "A file that is cut short, damaged or of another kind is refused in a sentence": "hostile::every_file_made_by_hand_is_refused_in_one_sentence",
    },
    "docs/how-to-your-own-model.md": {
        "The copy has your forward hooks": "surroundings::hooks_of_the_users_run_on_the_copy_and_stay_on_the_model",
        "Only classes of `torch_geometric.nn` and three of our own (`SumGNN`, `LinkGNN`, `RelationGNN`) can be named in `model.json`":
            "files::ones_own_class_is_named_never_described files::a_broken_description_is_refused",
    },
    "docs/how-to-your-own-convolution.md": {
        "whatever you say is compared with your model's own output on both snapshots before anything is explained":
            "register::a_reader_that_is_wrong_on_one_snapshot_alone_is_caught",
    },
    "docs/command-line.md": {
        "A stream that is closed is nobody's": "surroundings::a_stream_that_is_closed_is_nobodys",
        "what cannot be said to stderr changes no exit code":
            "surroundings::what_cannot_be_said_changes_no_exit_code",
        "`axiompath serve FOLDER [--port N]` | the same page from this machine to this machine":
            "server::it_listens_on_this_machine_alone",
        "a number is a name and never a row": "names::a_target_is_never_a_row_where_nodes_have_numbers",
        "`--json` prints JSON and nothing else": "story::story_prints_words_a_table_and_json",
        "progress and warnings go to stderr": "names::the_command_line_warns_on_stderr_once",
        "`axiompath --debug COMMAND` shows the traceback": "cli::debug_shows_the_traceback",
        "A terminal that cannot show an arrow or a line gets plain characters":
            "surroundings::a_terminal_that_cannot_show_an_arrow_gets_plain_characters",
        "no name in a file can command it: control characters are shown as �": "strangers::names_command_no_terminal",
        "A full device is named (exit code 2)": "surroundings::a_full_device_is_the_devices_fault",
        "A kept file that is damaged is made anew": "surroundings::a_damaged_file_of_compiled_code_is_made_anew",
        "a line says so and every process compiles for itself":
            "surroundings::without_a_place_for_compiled_code_it_is_compiled_in_memory_and_said_once",
        "| 1 | a fault of ours; please report it |": "cli::our_own_faults_are_exit_code_1",
        "| 2 | something given cannot be used as it is, or your own code failed":
            "cli::whose_fault_it_is_follows_from_the_type_alone strangers::what_your_own_code_raises_is_yours",
        "| 130, 143, 129 | stopped with Ctrl-C, SIGTERM, SIGHUP; also while it is still loading |":
            "surroundings::stopped_while_it_is_still_loading cli::interrupting_stops_without_a_traceback "
            "scan::signals_stop_a_scan_in_good_order",
        "| 141 | whoever read the output has gone": "surroundings::a_reader_who_has_gone_ends_it_quietly_as_other_tools",
    },
    "docs/how-to-ray.md": {
        "nothing else changes, not even a byte of the result": "ray::ray_writes_the_bytes_that_local_processes_write",
        "A task whose worker dies is run again": "ray::a_ray_worker_killed_in_mid_task_changes_no_byte",
        "one at which a worker dies even so is recorded with that reason":
            "ray::a_target_at_which_ray_workers_die_is_recorded",
    },
    "docs/how-to-follow-a-node.md": {
        "The contributions of one step sum to the change of the logits over that step":
            "story::contributions_of_consecutive_steps_sum_to_the_change_from_first_to_last",
        "in a network without activations they agree path by path":
            "story::without_activations_every_single_path_sums_over_the_steps",
        "Without `targets`, the nodes that changed their class most often come first":
            "story::without_targets_those_that_flipped_most_often_come_first "
            "story_of_all::without_targets_those_whose_decision_changed_most_often_come_first",
        "A node has a story if it exists in two consecutive snapshots":
            "story::absent_nodes_are_told_and_break_the_sum_into_parts",
        "is noted in the same way, with the number of paths, and the story goes on":
            "story::a_step_that_is_too_large_has_the_sentence_and_the_story_goes_on",
        "a unit of values is the same at every step": "story_of_all::a_story_says_what_the_model_says_and_its_steps_sum",
        "their nodes by their place in their graph, over the whole sequence":
            "story_of_all::a_batch_over_time_is_numbered_once_graph_by_graph",
    },
    "docs/how-to-graphs-and-links.md": {
        "nodes by `n_id`, else by their place in their graph, so that a graph that grew does not shift the others":
            "every_task::a_batch_is_matched_graph_by_graph",
        "Graphs that one snapshot alone has are in `explainer.unmatched()` and are not guessed at":
            "every_task::graphs_of_one_snapshot_alone_are_listed_and_not_guessed",
        "One raw column is a logit or a value, and nothing says which":
            "calls::one_raw_column_is_asked_for_and_never_guessed story_of_all::a_raw_column_is_asked_for_and_not_guessed",
        "paths that carry half of a change explain 50 %": "every_task::half_a_change_of_a_value_is_half_explained",
        "A node that only `after` has is explained against itself alone":
            "every_task::a_new_node_is_explained_against_itself_alone",
        "| `scan`, reports, figures, JSON, `to_pyg`, `PyGAlgorithm` | yes | yes |":
            "every_task::scans_of_links_and_graphs_say_what_explain_says every_task::pyg_asks_for_edges_and_graphs "
            "every_task::every_output_is_explained_in_its_own_words",
        "| the command line | yes: `--target u,v`, `--links pairs.csv`, `--output` | yes |":
            "every_task::the_command_line_takes_links_graphs_and_outputs "
            "story_of_all::the_command_line_tells_links_graphs_and_values",
        "| stories over time | yes": "story_of_all::a_story_says_what_the_model_says_and_its_steps_sum",
    },
    "docs/how-to-blame.md": {
        "Where not even two orders fit into the time (a hub, or a model that is slow itself), that is said before it is spent":
            "undo::blame_that_takes_much_longer_than_it_may_is_refused_before",
        "The search ends within a second of `seconds=`": "undo::the_time_that_is_given_is_kept",
        "`every=True` lists all sets of the least size in `alternatives`": "undo::kept_changes_costs_and_all_sets",
        "A target that only `after` has is blamed against itself alone":
            "blame::a_target_that_is_new_is_blamed_against_itself_alone",
        "Edges come in the order in which your graphs list them":
            "blame::the_order_of_edges_is_the_users_own_for_models_that_read_it",
        "`pytest -m slow research/tests/test_planted.py -k hundred` draws them again and fails below 95":
            "planted::blame_names_the_planted_cause_first_in_a_hundred_draws",
        "Shares sum to the change of every logit": "blame::blame_equals_brute_force",
        "with `opened=True` each change gets its part of its group's share (Owen values), and the parts sum to it":
            "blame::an_opened_group_sums_to_its_share",
        "The answer is always judged by **your own model on the real graph**": "undo::a_model_in_float32_has_the_last_word",
        "where the answer is found so, `proved` says that no fewer do":
            "enough::fewest_changes_equal_brute_force_on_the_users_model",
        "`features` splits the cause *feature* over columns, exactly, and without walking a path":
            "features::no_path_is_walked_and_sparse_features_stay_sparse",
        "so that shares sum to what every prediction moved by":
            "tally::shares_are_means_completed_by_how_unsure_they_are",
        "a fact, not an estimate": "tally::a_change_toggled_is_what_the_model_says_of_it",
        "Facts are written in parts, by all workers, and a scan that was stopped goes on":
            "tally::any_number_of_workers_and_any_interruption_give_the_same_bytes",
        "`Explainer(..., paths=False)` opens without reading the model, and runs it as it is":
            "evaluator::without_reading_the_model_the_answers_are_the_same",
    },
    "docs/how-to-data-or-model.md": {
        "These are the Shapley values of two players, and they sum to the whole change":
            "retrained::shares_of_model_and_data_are_those_of_two_players",
        "Other weights on the same graph are the model's to the last digit":
            "retrained::other_weights_alone_are_all_the_models",
        "Where its weights are those of the new one, all answers are as if it had not been named":
            "retrained::the_same_weights_are_as_if_there_were_one_model",
        "What cannot be done together is refused in a sentence": "retrained::what_cannot_be_combined_says_so",
    },
    "docs/api.md": {
        "the model is copied, never altered": "reading::the_users_model_and_data_are_left_as_they_were_even_after_an_error",
        "a path that neither graph has is refused": "flows::paths_that_neither_graph_has_are_refused",
        "never leaves more than `convex`": "explanation::exact_is_never_worse_than_convex_and_at_most_may_take_fewer",
        "JSON, versioned; files of release 0.2 stay readable": "written_by_0_2::records",
        "Together they sum to the sum over the chosen paths of contribution times number of steps":
            "flows::masks_place_every_step_and_lose_nothing",
        "A graph's does not depend on the order of its nodes and edges": "origin::a_graph_s_digest_is_of_its_numbers_alone",
        "Every refusal of a file or an argument is an `InputError`": "layout::every_refusal_is_an_input_error",
    },
    "docs/attribution.md": {
        "sum to the change, for every class, to rounding": "attribution::contributions_sum_to_the_change_of_every_logit",
        "A difference is an error that names the first layer that differs, never a wrong explanation":
            "reading::a_wrong_reader_is_caught_and_the_first_wrong_layer_named",
        "the share of features is 40.82 and that of reweighting −0.26":
            "attribution::features_on_renormalised_paths_are_no_renormalisation",
        "Counts are exact, in Python integers where 64 bits would not do":
            "attribution::counts_beyond_float64_are_exact_python_integers",
        "node sequences that no such sequence carries are no paths":
            "attribution::paths_whose_channels_do_not_connect_are_none",
        "What is found is attributed as it would be in a list, to the last bit":
            "pricing::some_paths_are_attributed_as_they_are_in_a_list",
        "so that the certificate holds, and `status` says so":
            "pricing::a_search_that_is_given_up_leaves_a_bound_that_holds",
        "a contribution is the same to the last bit whatever the batch or the number of threads":
            "attribution::results_do_not_depend_on_the_batch_bit_by_bit",
    },
    "docs/mathematics.md": {
        "**Theorem 1.** The contributions of all paths sum to":
            "attribution::contributions_sum_to_the_change_of_every_logit",
        "**Theorem 2 (causes).**": "attribution::paths_contributions_kinds_and_causes_equal_the_literal_twin",
        "**Theorem 4 (GNN-LRP).**": "attribution::theorem_1_an_empty_graph_before_gives_gnn_lrp_relevances",
        "**Theorem 5 (certificate).**": "selection::bound_is_below_every_choice",
        "**Theorem 7.** Undoing every altered path gives":
            "replay::undoing_everything_gives_before_and_adding_everything_gives_after",
    },
    "docs/selection.md": {
        "the best of all when m <= 20": "selection::exact_equals_brute_force",
        "Ties go to the lower index in every method": "selection::ties_go_to_the_lower_index",
        "It is never worse than `convex`": "selection::exact_is_never_worse_than_any_other_method",
        "holds for the logits and contributions as they are given, however small the change is":
            "tiny_changes::bounds_and_words_hold_for_changes_of_any_size",
        "at most n never leaves more than exactly n, nor than at most fewer":
            "selection::at_most_n_is_never_worse_than_exactly_n_nor_than_at_most_fewer",
        "Units never share a path, and the chosen ones and the rest sum to the change":
            "groups::what_is_chosen_is_a_partition_with_its_rest_and_never_worse_than_ends_of_one_hop",
        "The answer is the one that `budget=k` gives": "enough::as_many_as_are_enough_are_what_that_budget_gives",
        "the answers are those of `select`, bit for bit, whatever the number of threads":
            "selection::many_equals_one_by_one_bit_for_bit",
        "All units put in give `after`": "units::what_is_put_in_is_a_pass_with_exactly_these_coefficients",
    },
    "docs/replay.md": {
        "A node that comes back with an edge has its features of the graph it comes from":
            "calls::replaying_edges_runs_the_same_call",
        "Undoing nothing gives `after`'s logits": "explanation::fidelity_is_1_for_nothing_and_0_for_everything",
        "always for ReLU, LeakyReLU and PReLU": "replay::undoing_everything_gives_before_and_adding_everything_gives_after",
        "to rounding what undoing all paths of the group one by one gives":
            "groups::undoing_a_group_is_undoing_its_paths_one_by_one",
        "Both are exact; nothing is sampled": "rivals::relevance_ranks_all_paths_of_after "
            "rivals::gradient_ranks_all_paths_of_after",
    },
    "docs/reading-the-numbers.md": {
        "no choice of as many paths leaves less": "selection::bound_is_below_every_choice",
        "A change that rounding the logits could have made is called *unresolved*":
            "tiny_changes::a_change_within_the_rounding_of_the_logits_is_called_so",
        "**Both directions are one change** if both changed alike":
            "changes::a_directed_edge_elsewhere_splits_no_other_change",
        "the same graphs and options always give the same ids": "changes::changes_are_the_literal_ones",
        "One parallel edge more is an edge added": "changes::changes_are_the_literal_ones",
    },
    "docs/models.md": {
        "Your model is never altered": "reading::the_users_model_and_data_are_left_as_they_were_even_after_an_error",
        "The logits that the normal form is compared with are those of exactly this call, on both graphs, in your order of nodes":
            "calls::a_matched_pair_is_compared_in_the_users_own_order_of_rows",
        "`changes()` has the kind *edge features changed*, and blame, undo and what_if apply it":
            "edge_features::an_edge_whose_features_changed_is_a_change_that_is_blamed_and_undone",
        "A field that nothing reads costs nothing": "calls::fields_of_one_snapshot_that_nothing_reads_do_no_harm",
        "If they differ, nothing is explained": "register::a_registered_reader_is_used_and_one_with_a_wrong_coefficient_is_caught",
        "Each refusal names the module": "people_models::what_cannot_be_read_is_refused_by_name_with_a_reason_and_a_way_out",
        "One that the model reads must be in both snapshots": "calls::what_one_snapshot_lacks_is_said",
    },
    "docs/results.md": {
        "**Same seed, same weights, on any processor.**":
            "experiments::weights_are_the_same_to_the_last_bit_on_a_poor_processor",
        "a run that was stopped goes on there, and `--workers` changes no number":
            "experiments::a_stopped_run_goes_on_and_gives_the_same_table "
            "experiments::the_same_numbers_on_any_number_of_workers",
    },
    "docs/tutorial.md": {
        "Every altered path has its share, and the shares sum to the change":
            "attribution::contributions_sum_to_the_change_of_every_logit docs::every_python_block_runs_after_an_installation",
        "In a notebook, an explanation shows itself": "report::a_notebook_shows_the_figure_and_escapes_names",
        "`report.html` is one file that needs no network (and forbids itself to use it)":
            "report::it_opens_with_an_overview_and_asks_the_network_for_nothing "
            "report::the_page_may_run_its_own_scripts_and_nothing_else",
    },
    "docs/how-to-benchmark.md": {
        "Everything is a copy: what a method does to the model or the graphs does not matter":
            "league::a_method_gets_copies_its_seed_and_its_time",
        "A method that raises, takes longer or returns something else has failed at that puzzle":
            "league::what_a_method_may_return league::a_method_gets_copies_its_seed_and_its_time",
        "equal scores are put in a random order": "league::equal_scores_are_ranked_at_random",
        "It needs no data folder: its planted graphs are made on the spot":
            "planted::a_planted_cause_is_in_the_table_and_does_it",
        "0 is best, doing nothing gives 1": "league::a_ranking_is_judged_by_what_if",
    },
    "docs/field.md": {
        "a slice of every table here and of the paper's page, compared with both":
            "league::a_slice_of_every_table_is_what_the_pages_say",
        "against everything that leaves less than it does (by 0.005 or more), ours among them":
            "league::the_page_tells_every_loss",
        "Sizes are those of their program": "league::levels_are_the_authors_sizes",
        "1 % of unrelated edges toggled in both graphs": "league::unrelated_edges_leave_the_changes_alone",
        "The command prints each refusal in the package's own words": "league::every_contender_ranks_or_says_why",
    },
    "docs/tasks.md": {
        "pairs are the new links of the month that follows, and as many random pairs of members known by then":
            "tasks::months_hold_no_pair_that_was_linked_before",
        "What changes is edges, and in trees posts": "tasks::trees_grow_by_posts_alone",
        "a rule fitted to the shares that their code gives for five molecules, which it meets to 1e-6 on these same five":
            "faithfulness::the_authors_split_has_the_authors_shares",
        "Of molecules every choice of changes is proved the best of its number, so edges never leave less":
            "faithfulness::changes_leave_less_than_edges_and_layer_edges",
        "it writes a row for each target, method and budget": "tasks::the_command_runs_the_tasks",
    },
    "docs/index.md": {
        "it splits the change of the prediction, exactly, over the message-passing paths that the change altered":
            "attribution::contributions_sum_to_the_change_of_every_logit",
        "with a certificate of how good the choice is": "selection::bound_is_below_every_choice",
    },
}  # fmt: skip

# What the pages say of limits, with the program's own numbers in it.
NUMBERS = [
    ("SECURITY.md", f"{safe.SMALL / 1e6:.0f} MB, or {safe.GROWTH:,} times its size where that is more, and never more "
     f"than {safe.MAX_BYTES / 1e9:.0f} GB"),
    ("docs/how-to-your-own-data.md", f"more than {safe.MAX_BYTES / 1e9:.0f} GB would be made in memory (its numbers as "
     f"they are, and as float64), or more than {safe.SMALL / 1e6:.0f} MB and more than {safe.GROWTH:,} times its size"),
    ("docs/how-to-your-own-data.md", f"A table has at most {MAX_COLUMNS:,} columns."),
    ("docs/how-to-events.md", f"At most {windows.MAX_SNAPSHOTS:,} snapshots are made, of fewer events than that "
     f"{windows.FEW_SNAPSHOTS:,} or one an event"),
    ("docs/how-to-events.md", f"of which at most {training.MOST_LEARNT:,} are told apart"),
    ("docs/how-to-events.md", f"the pairs that came or went, at most {watch.MOST_LINKS} a step"),
    ("docs/how-to-events.md", f"tells kinds of events apart, {({10: 'ten'})[watch.MOST_RELATIONS]} and *other*"),
    ("docs/how-to-events.md", f"whose KL is at least `--min-kl` ({watch.Pace().min_kl})"),
    ("docs/how-to-scan.md", f"at least `min_kl` nats ({plan.Thresholds().min_kl} if you do not say; 0 for all)"),
    ("docs/how-to-scan.md", f"A worker counts with {work.PROCESS_BYTES / 1e6:.0f} MB before it has explained anything."),
    ("docs/how-to-scan.md", f"after {({120.0: 'two minutes'})[engines.SILENCE]} in which it took no processor time"),
    ("docs/how-to-scan.md", f"A node with {walks.PRICED_PATHS:,} altered paths or more is **searched**"),
    ("docs/how-to-scan.md", f"up to {({1000: 'a thousand'})[plan.PART_TARGETS]} explanations each, one a row"),
    ("docs/attribution.md", f"From {walks.PRICED_PATHS:,} altered paths on"),
    ("docs/how-to-large-graphs.md", f"of up to {sample.MAX_EDGES:,} edges"),
    ("docs/how-to-large-graphs.md",
     f"Where one has more than {({2_000_000: 'two million'})[sample.WHOLE_EDGES]} edges"),
    ("README.md", f"(on samples of more than {({2_000_000: 'two million'})[sample.WHOLE_EDGES]} edges)"),
    ("docs/selection.md", f"the fewest paths, {question.MOST_PATHS} at most, that explain nine tenths of the change "
     f"(`until={question.ENOUGH}`"),
    ("docs/how-to-blame.md", f"All subsets are tried for up to {ALWAYS_EXACT} changes in sight"),
    ("docs/how-to-blame.md", f"more than {facts.MOST_ROWS // 10**6} million pairs of a change and a prediction are refused"),
    ("docs/reading-the-numbers.md", f"warn where that is more than {100 * DISAGREEMENT:.0f} percentage points less"),
    ("docs/how-to-data-or-model.md", f"with −{-ABSENT} before its leaf"),
    ("docs/replay.md", f"is written with {ANY} before its end"),
]  # fmt: skip


@cache
def words_of(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@cache
def held_by(name):
    (file,) = [file for folder in ("tests", "research/tests") for file in (ROOT / folder).rglob(f"test_{name}.py")]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name.removeprefix("test_") for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PROMISES)
def test_every_promise_stands_in_its_page_and_has_its_tests(page):
    missing = [sentence for sentence in PROMISES[page] if " ".join(sentence.split()) not in words_of(page)]
    assert missing == []
    untested = [
        test
        for tests in PROMISES[page].values()
        for test in tests.split()
        if test.split("::")[1] not in held_by(test.split("::")[0])
    ]
    assert untested == []


def test_every_page_has_promises():
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} | {"README.md", "SECURITY.md"}
    assert pages == set(PROMISES)


def test_limits_in_the_pages_are_those_of_the_program():
    assert [(page, text) for page, text in NUMBERS if " ".join(text.split()) not in words_of(page)] == []


def test_every_method_is_in_the_python_interface():
    assert all(f"`{method}`" in words_of("docs/api.md") for method in METHODS)


OPTIONS = re.compile(r"^\| `(\.?\w+)\((.*?)\)`", re.MULTILINE)


def test_signatures_in_the_python_interface_are_those_of_the_program():
    """Every call in docs/api.md whose arguments are all written out has these arguments and defaults."""
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    wrong, held = [], 0
    for name, arguments in OPTIONS.findall(page):
        if "..." in arguments:
            continue
        home = axiompath.Explainer if name.startswith(".") else axiompath
        thing = getattr(home, name.removeprefix("."), None)
        if thing is None:  # of another record: Explanation, Scan, Story
            continue
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]
        parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        told = ast.parse(f"def f({arguments}): pass").body[0].args
        names = [argument.arg for argument in (*told.args, *told.kwonlyargs)]
        known = {p.name: p.default for p in parameters}
        defaults = dict(
            zip(names[len(names) - len(told.defaults) :], map(ast.literal_eval, told.defaults), strict=True)
        )
        held += 1
        given = {key: value for key, value in known.items() if value is not inspect.Parameter.empty}
        bare = [key for key in known if key not in given]
        if names[: len(bare)] != bare or any(given.get(key, ...) != value for key, value in defaults.items()):
            wrong.append((name, arguments, inspect.signature(thing)))
    assert wrong == []
    assert held > 20
