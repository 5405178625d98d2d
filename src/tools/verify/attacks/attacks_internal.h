#pragma once
#include "tools/verify/attacks/raid.h"

/* The attacks and their controls, by file; the table in attacks.c assigns them to checks. */

/* paths.c */
atoll_attack_fn atoll_attack_traversal, atoll_control_traversal;
atoll_attack_fn atoll_attack_magic_links, atoll_control_magic_links;
atoll_attack_fn atoll_attack_hard_links, atoll_control_hard_links;
/* races.c */
atoll_attack_fn atoll_attack_race, atoll_control_race;
atoll_attack_fn atoll_attack_special_files, atoll_control_special_files;
/* archives.c */
atoll_attack_fn atoll_attack_tar_slip, atoll_control_tar_slip;
atoll_attack_fn atoll_attack_tar_bombs, atoll_control_tar_bombs;
/* names.c */
atoll_attack_fn atoll_attack_git, atoll_control_git;
atoll_attack_fn atoll_attack_header_injection, atoll_control_header_injection;
atoll_attack_fn atoll_attack_shell, atoll_control_shell;
atoll_attack_fn atoll_attack_log_injection, atoll_control_log_injection;
/* http.c */
atoll_attack_fn atoll_attack_smuggling, atoll_control_smuggling;
atoll_attack_fn atoll_attack_json, atoll_control_json;
/* floods.c */
atoll_attack_fn atoll_attack_slow_clients, atoll_control_slow_clients;
atoll_attack_fn atoll_attack_descriptors, atoll_control_descriptors;
atoll_attack_fn atoll_attack_output, atoll_control_output;
/* keys.c */
atoll_attack_fn atoll_attack_guessing, atoll_control_guessing;
atoll_attack_fn atoll_attack_secrets, atoll_control_secrets;
atoll_attack_fn atoll_attack_missing_key, atoll_control_missing_key;
/* previews.c */
atoll_attack_fn atoll_attack_hosts, atoll_control_hosts;
atoll_attack_fn atoll_attack_origins, atoll_control_origins;
/* ssrf.c */
atoll_attack_fn atoll_attack_preview_ssrf, atoll_control_preview_ssrf;
atoll_attack_fn atoll_attack_feature_ssrf, atoll_control_feature_ssrf;
/* tenants.c */
atoll_attack_fn atoll_attack_foreign_ids, atoll_control_foreign_ids;
atoll_attack_fn atoll_attack_ids_as_paths, atoll_control_ids_as_paths;
atoll_attack_fn atoll_attack_noisy_tenant, atoll_control_noisy_tenant;
/* agent.c */
atoll_attack_fn atoll_attack_frames, atoll_control_frames;
atoll_attack_fn atoll_attack_pid_reuse, atoll_control_pid_reuse;
atoll_attack_fn atoll_attack_privilege, atoll_control_privilege;
/* ends.c */
atoll_attack_fn atoll_attack_destroy, atoll_control_destroy;
atoll_attack_fn atoll_attack_abandoned, atoll_control_abandoned;
atoll_attack_fn atoll_attack_residue, atoll_control_residue;
/* busy_file.c */
atoll_attack_fn atoll_attack_busy_file, atoll_control_busy_file;
