/*
 * The table of attacks, and their order. See attacks.h; the attacks themselves are in attacks/.
 */
#include "tools/verify/attacks.h"

#include <errno.h>
#include "tools/verify/attacks/attacks_internal.h"
#include "tools/verify/box.h"

#define TIER "daemon"
#define CONTROL "control"
#define UPDATE "this is a fault of the daemon: update it, and report it as SECURITY.md says"

/* One row each, in the order of the promises in docs/security.md. */
const struct atoll_check atoll_attack_checks[] = {
    {"api.path_traversal", "D1", "paths of the file API stay inside the sandbox", UPDATE},
    {"api.path_race", "D2", "paths stay inside while directories turn into links", UPDATE},
    {"api.magic_links", "D3", "links of procfs lead nowhere", UPDATE},
    {"api.hard_links", "D4", "a file is replaced, not written through its other names",
     UPDATE "; sysctl fs.protected_hardlinks=1 helps as well"},
    {"api.special_files", "D5", "pipes, devices and sparse files do not stop the daemon", UPDATE},
    {"api.tar_slip", "D6", "archives are unpacked inside, whatever their names say", UPDATE},
    {"api.tar_bombs", "D7", "archives meet the limits of their sandbox", UPDATE},
    {"api.hostile_git", "D8", "nothing of the host runs what a repository says", UPDATE},
    {"api.header_injection", "D9", "names of files become no headers", UPDATE},
    {"api.smuggling", "D10", "every parser sees the same single request",
     UPDATE "; do not put a proxy in front that passes on what it does not understand"},
    {"api.hostile_json", "D11", "JSON costs no more than its size", UPDATE},
    {"api.slow_clients", "D12", "slow clients do not delay others", UPDATE},
    {"api.descriptors", "D13", "many connections do not delay others and leave nothing",
     "raise the daemon's limit of open files (LimitNOFILE= in its unit), or update it"},
    {"api.key_guessing", "D14", "keys cannot be guessed", "set --wrong-key-rate to 10 or so"},
    {"api.secrets", "D15", "keys and variables are written down nowhere",
     "change the secret, remove it from where it was found, and update the daemon"},
    {"api.missing_key", "D16", "requests without a key are refused",
     "do not make the daemon's port or socket reachable; update it"},
    {"api.host_tricks", "D17", "only the exact host of a preview leads into it", UPDATE},
    {"api.preview_ssrf", "D18", "previews lead into their sandbox and nowhere else", UPDATE},
    {"api.preview_origins", "D19", "other sites and servers inside get no credentials",
     UPDATE "; give previews a domain of their own (--preview-domain)"},
    {"api.foreign_ids", "D20", "what belongs to another tenant does not exist", UPDATE},
    {"api.ids_as_paths", "D21", "ids are checked before they name anything", UPDATE},
    {"api.shell_names", "D22", "names are never run", UPDATE},
    {"api.log_injection", "D23", "clients write no lines of their own into logs", UPDATE},
    {"api.output_flood", "D24", "output is bounded, however it is read", UPDATE},
    {"api.forged_frames", "D25", "code inside cannot make up how a command ended", UPDATE},
    {"api.destroy", "D26", "a sandbox that resists is destroyed all the same",
     "look for processes of the sandbox with ps, and for its cgroup; update the daemon"},
    {"api.pid_reuse", "D27", "a signal reaches its command or no process", UPDATE},
    {"api.abandoned", "D28", "a start that is given up leaves nothing",
     "atoll ls --all-tenants shows what is left; update the daemon"},
    {"api.residue", "D29", "a new sandbox holds nothing of an old one", UPDATE},
    {"api.ssrf", "D30", "the daemon fetches nothing from addresses of the host",
     "leave private_registries of docker in providers.yaml out, and list what is needed in registries"},
    {"api.privilege", "D31", "the process that reads requests has no privileges",
     "start atolld so that it can drop them: as root, or as an ordinary user without capabilities"},
    {"api.noisy_tenant", "D32", "a noisy tenant is slowed down, not the others",
     "set --key-rate, --tenant-creates and --tenant-execs"},
    {"api.busy_file", "D33", "a file that is busy inside delays no other tenant", UPDATE},
};
const size_t atoll_attack_checks_count = ATOLL_ARRAY_LEN(atoll_attack_checks);

/* In the same order. */
static const struct {
    atoll_attack_fn *attack, *control;
} runs[] = {
    {atoll_attack_traversal, atoll_control_traversal},
    {atoll_attack_race, atoll_control_race},
    {atoll_attack_magic_links, atoll_control_magic_links},
    {atoll_attack_hard_links, atoll_control_hard_links},
    {atoll_attack_special_files, atoll_control_special_files},
    {atoll_attack_tar_slip, atoll_control_tar_slip},
    {atoll_attack_tar_bombs, atoll_control_tar_bombs},
    {atoll_attack_git, atoll_control_git},
    {atoll_attack_header_injection, atoll_control_header_injection},
    {atoll_attack_smuggling, atoll_control_smuggling},
    {atoll_attack_json, atoll_control_json},
    {atoll_attack_slow_clients, atoll_control_slow_clients},
    {atoll_attack_descriptors, atoll_control_descriptors},
    {atoll_attack_guessing, atoll_control_guessing},
    {atoll_attack_secrets, atoll_control_secrets},
    {atoll_attack_missing_key, atoll_control_missing_key},
    {atoll_attack_hosts, atoll_control_hosts},
    {atoll_attack_preview_ssrf, atoll_control_preview_ssrf},
    {atoll_attack_origins, atoll_control_origins},
    {atoll_attack_foreign_ids, atoll_control_foreign_ids},
    {atoll_attack_ids_as_paths, atoll_control_ids_as_paths},
    {atoll_attack_shell, atoll_control_shell},
    {atoll_attack_log_injection, atoll_control_log_injection},
    {atoll_attack_output, atoll_control_output},
    {atoll_attack_frames, atoll_control_frames},
    {atoll_attack_destroy, atoll_control_destroy},
    {atoll_attack_pid_reuse, atoll_control_pid_reuse},
    {atoll_attack_abandoned, atoll_control_abandoned},
    {atoll_attack_residue, atoll_control_residue},
    {atoll_attack_feature_ssrf, atoll_control_feature_ssrf},
    {atoll_attack_privilege, atoll_control_privilege},
    {atoll_attack_noisy_tenant, atoll_control_noisy_tenant},
    {atoll_attack_busy_file, atoll_control_busy_file},
};

_Static_assert(ATOLL_ARRAY_LEN(runs) == ATOLL_ARRAY_LEN(atoll_attack_checks),
               "an attack for each check");

static void run(struct atoll_raid *raid, size_t i, bool control)
{
    struct atoll_raid_outcome outcome = {.verdict = ATOLL_VERDICT_HOLDS};

    (control ? runs[i].control : runs[i].attack)(raid, &outcome);
    if (!control && atoll_raid_was_disturbed(raid))
        outcome = (struct atoll_raid_outcome){ATOLL_VERDICT_UNKNOWN, ATOLL_BOX_REMOVED};
    if (control && outcome.verdict == ATOLL_VERDICT_HOLDS)
        atoll_outcome_note(&outcome, "the careless stand-in did not fall for it");
    atoll_report_add(raid->v->report, control ? CONTROL : TIER, &atoll_attack_checks[i],
                     outcome.verdict, "%s", outcome.text);
}

/* The attack of slow clients is judged last: one of them has been connected since the beginning. */
int atoll_attacks_run(const struct atoll_verify *v, struct atoll_error *err)
{
    struct atoll_raid raid;
    int r = atoll_raid_init(&raid, v, err);

    for (int last = 0; r == 0 && last < 2; last++)
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(runs); i++) {
            bool is_last = runs[i].attack == atoll_attack_slow_clients;
            if (is_last != (last == 1) || !atoll_verify_wants(v, &atoll_attack_checks[i]))
                continue;
            run(&raid, i, false);
            run(&raid, i, true);
        }
    /* Check that the daemon still answers on the client's connection. */
    if (r == 0 && atoll_raid_call(&raid, "GET", "/healthz", NULL) != 200)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "the daemon no longer answers");
    atoll_raid_done(&raid);
    return r;
}
