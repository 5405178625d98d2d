/*
 * Archives that try to write outside the sandbox, and archives that would fill the disk. The daemon lets
 * a tar inside the sandbox unpack them, so they can harm only that sandbox.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "sys/tree.h"
#include "tools/verify/attacks/attacks_internal.h"
#include "tools/verify/attacks/hostile_tar.h"

#define ARCHIVE_MAX ((size_t)4 * 1024 * 1024)
#define CLIMB "../../../../../../../../../../../../../../../.."
#define BOMB_BYTES ((uint64_t)128 * 1024 * 1024)
#define MANY 1200
#define MEMORY_KIB (64 * 1024)
#define EIGHT_TIB ((uint64_t)8 << 40)

/* D6. Each writes one archive; `host` is a path of the host, the empty directory or the canary. */

static int climb(struct atoll_buf *out, const struct atoll_raid *raid)
{
    char name[700];

    (void)snprintf(name, sizeof(name), CLIMB "%s/climbed", raid->drop);
    return atoll_hostile_tar_add(out,
                                 &(struct atoll_hostile_tar_entry){name, '0', NULL, 0, "out", 0});
}

static int absolute(struct atoll_buf *out, const struct atoll_raid *raid)
{
    char name[700];

    (void)snprintf(name, sizeof(name), "%s/absolute", raid->drop);
    return atoll_hostile_tar_add(out,
                                 &(struct atoll_hostile_tar_entry){name, '0', NULL, 0, "out", 0});
}

static int through_link(struct atoll_buf *out, const struct atoll_raid *raid)
{
    int r = atoll_hostile_tar_add(
        out, &(struct atoll_hostile_tar_entry){"way", '2', raid->drop, 0, NULL, 0});

    return r < 0 ? r
                 : atoll_hostile_tar_add(out, &(struct atoll_hostile_tar_entry){"way/through", '0',
                                                                                NULL, 0, "out", 0});
}

static int through_two_links(struct atoll_buf *out, const struct atoll_raid *raid)
{
    char target[700];
    int r =
        atoll_hostile_tar_add(out, &(struct atoll_hostile_tar_entry){"up", '2', CLIMB, 0, NULL, 0});

    (void)snprintf(target, sizeof(target), "up%s", raid->drop);
    if (r == 0)
        r = atoll_hostile_tar_add(
            out, &(struct atoll_hostile_tar_entry){"over", '2', target, 0, NULL, 0});
    return r < 0 ? r
                 : atoll_hostile_tar_add(
                       out, &(struct atoll_hostile_tar_entry){"over/two", '0', NULL, 0, "out", 0});
}

static int hard_link(struct atoll_buf *out, const struct atoll_raid *raid)
{
    int r = atoll_hostile_tar_add(
        out, &(struct atoll_hostile_tar_entry){"twin", '1', raid->canary, 0, NULL, 0});

    return r < 0 ? r
                 : atoll_hostile_tar_add(
                       out, &(struct atoll_hostile_tar_entry){"twin", '0', NULL, 0, "changed", 0});
}

static int link_to_file(struct atoll_buf *out, const struct atoll_raid *raid)
{
    int r = atoll_hostile_tar_add(
        out, &(struct atoll_hostile_tar_entry){"alias", '2', raid->canary, 0, NULL, 0});

    return r < 0 ? r
                 : atoll_hostile_tar_add(
                       out, &(struct atoll_hostile_tar_entry){"alias", '0', NULL, 0, "changed", 0});
}

static int pax_path(struct atoll_buf *out, const struct atoll_raid *raid)
{
    char name[700];
    int r;

    (void)snprintf(name, sizeof(name), CLIMB "%s/pax", raid->drop);
    r = atoll_hostile_tar_add_pax_path(out, name);
    return r < 0 ? r
                 : atoll_hostile_tar_add(
                       out, &(struct atoll_hostile_tar_entry){"tame", '0', NULL, 0, "out", 0});
}

static int through_proc(struct atoll_buf *out, const struct atoll_raid *raid)
{
    char name[700];

    (void)snprintf(name, sizeof(name), "/proc/self/root%s/proc", raid->drop);
    return atoll_hostile_tar_add(out,
                                 &(struct atoll_hostile_tar_entry){name, '0', NULL, 0, "out", 0});
}

static const struct {
    const char *name;
    int (*write)(struct atoll_buf *out, const struct atoll_raid *raid);
} slips[] = {
    {"..", climb},
    {"an absolute name", absolute},
    {"a link to a directory", through_link},
    {"two links", through_two_links},
    {"a hard link", hard_link},
    {"a link to a file", link_to_file},
    {"a pax header", pax_path},
    {"/proc/self/root", through_proc},
};

static int put_archive(struct atoll_raid *raid, const char *id, const char *query,
                       const struct atoll_buf *archive)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    char target[200];
    const struct atoll_ask ask = {.method = "PUT",
                                  .target = target,
                                  .body = atoll_buf_head(archive),
                                  .size = atoll_buf_size(archive)};

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/archive?%s", id, query);
    return atoll_raid_ask(raid, &ask, &reply);
}

/* Templates are unpacked too, for an admin: imports one that contains all of them, and removes it. */
static void import(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    struct atoll_buf archive;
    char target[100];
    struct atoll_ask ask = {.method = "PUT", .target = target};
    int r = 0;

    (void)snprintf(target, sizeof(target), "/api/templates/verify-%.8s", raid->mark);
    atoll_buf_init(&archive, ARCHIVE_MAX);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(slips); i++)
        r = slips[i].write(&archive, raid);
    if (r == 0)
        r = atoll_hostile_tar_end(&archive);
    ask.body = atoll_buf_head(&archive);
    ask.size = atoll_buf_size(&archive);
    if (r == 0 && atoll_raid_ask(raid, &ask, &reply) == 0)
        atoll_outcome_found(o, "importing a hostile archive as a template was not answered");
    (void)atoll_raid_call(raid, "DELETE", target, NULL);
    atoll_buf_done(&archive);
    (void)atoll_raid_canaries_sing(raid, o, "a template");
}

void atoll_attack_tar_slip(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const queries[] = {"path=slip", "path=slip&user=root"};

    if (!atoll_raid_box(raid, o))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(slips) * ATOLL_ARRAY_LEN(queries); i++) {
        size_t which = i / ATOLL_ARRAY_LEN(queries);
        struct atoll_buf archive;
        int status = 0;
        atoll_buf_init(&archive, ARCHIVE_MAX);
        if (slips[which].write(&archive, raid) == 0 && atoll_hostile_tar_end(&archive) == 0)
            status = put_archive(raid, raid->box, queries[i % ATOLL_ARRAY_LEN(queries)], &archive);
        atoll_buf_done(&archive);
        if (status == 0 || status == 500)
            atoll_outcome_found(o, "an archive with %s was answered %d", slips[which].name, status);
        if (!atoll_raid_canaries_sing(raid, o, slips[which].name))
            break;
    }
    import(raid, o);
    (void)atoll_raid_sh(raid, raid->box, "root", "cd /home/user && rm -rf slip", NULL, 0);
    (void)atoll_raid_alive(raid, o, "hostile archives");
    atoll_outcome_note(o, "%zu archives, unpacked as user and as root, and as a template",
                       ATOLL_ARRAY_LEN(slips));
}

static const char *fresh_dir(const struct atoll_raid *raid, const char *name, char *out, size_t cap)
{
    (void)atoll_raid_path(raid, name, out, cap);
    (void)!atoll_tree_remove(AT_FDCWD, out);
    (void)mkdir(out, 0700);
    return out;
}

void atoll_control_tar_slip(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_hostile_tar_carelessness careless;
    size_t escaped = 0;
    char dir[600];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(slips); i++) {
        struct atoll_raid_outcome seen = {0};
        struct atoll_buf archive;
        atoll_buf_init(&archive, ARCHIVE_MAX);
        (void)fresh_dir(raid, "unpacked", dir, sizeof(dir));
        if (slips[i].write(&archive, raid) == 0)
            atoll_hostile_tar_unpack_carelessly(dir, atoll_buf_head(&archive),
                                                atoll_buf_size(&archive), &careless);
        atoll_buf_done(&archive);
        escaped += !atoll_raid_canaries_sing(raid, &seen, slips[i].name);
        atoll_raid_reset_canaries(raid);
    }
    if (escaped > 0)
        atoll_outcome_found(o, "%zu of %zu archives escaped from a careless extractor", escaped,
                            ATOLL_ARRAY_LEN(slips));
}

/* D7. */

static int many(struct atoll_buf *out)
{
    char name[32];
    int r = 0;

    for (int i = 0; r == 0 && i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "many-%d", i);
        r = atoll_hostile_tar_add(out,
                                  &(struct atoll_hostile_tar_entry){name, '0', NULL, 0, NULL, 0});
    }
    return r < 0 ? r : atoll_hostile_tar_end(out);
}

static int huge(struct atoll_buf *out)
{
    return atoll_hostile_tar_add(
        out, &(struct atoll_hostile_tar_entry){"huge", '0', NULL, 0, "little", EIGHT_TIB});
}

static int special(struct atoll_buf *out)
{
    static const struct atoll_hostile_tar_entry entries[] = {
        {"char", '3', NULL, 0666, NULL, 0},   {"block", '4', NULL, 0666, NULL, 0},
        {"pipe", '6', NULL, 0666, NULL, 0},   {"setuid", '0', NULL, 04755, "x", 0},
        {"both", '0', NULL, 0, "file", 0},    {"both/", '5', NULL, 0755, NULL, 0},
        {"both/in", '0', NULL, 0, "file", 0},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(entries); i++)
        r = atoll_hostile_tar_add(out, &entries[i]);
    return r < 0 ? r : atoll_hostile_tar_end(out);
}

static int gzip_bomb(struct atoll_buf *out)
{
    return atoll_hostile_tar_gzip_bomb(out, BOMB_BYTES);
}

static const struct {
    const char *name, *query;
    int (*write)(struct atoll_buf *out);
    bool may_succeed;
} bombs[] = {
    {"1200 files", "path=many", many, false},
    {"a claim of 8 TiB", "path=huge", huge, false},
    {"special files", "path=special", special, true},
    {"special files, by root", "path=special-root&user=root", special, true},
    {"128 MiB out of one", "path=bomb&compression=gzip", gzip_bomb, false},
};

/* False if this host cannot enforce a disk limit, which the sandbox then waives. */
static bool has_disk_limit(struct atoll_raid *raid, const char *id)
{
    char target[100];
    ATOLL_AUTOJSON json_t *sandbox = NULL;
    const json_t *waived, *name;
    size_t i;

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s", id);
    sandbox = atoll_raid_json(raid, "GET", target, NULL);
    waived = json_object_get(sandbox, "waived");
    json_array_foreach(waived, i,
                       name) if (strcmp(json_string_value(name), "disk") == 0) return false;
    return true;
}

void atoll_attack_tar_bombs(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int64_t before = atoll_raid_daemon_memory(raid), after;
    char id[ATOLL_RAID_ID_MAX], out[300];
    bool bounded;

    if (!atoll_raid_make(raid, o, NULL,
                         "{\"limits\":{\"diskMB\":32,\"inodes\":800,\"memoryMB\":256,"
                         "\"timeoutSeconds\":900},\"waive\":[\"all\"]}",
                         id))
        return;
    bounded = has_disk_limit(raid, id);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bombs); i++) {
        struct atoll_buf archive;
        int status = 0;
        atoll_buf_init(&archive, ARCHIVE_MAX);
        if (bombs[i].write(&archive) == 0)
            status = put_archive(raid, id, bombs[i].query, &archive);
        atoll_buf_done(&archive);
        if (status == 0 || status == 500 || (bounded && !bombs[i].may_succeed && status < 300))
            atoll_outcome_found(o, "an archive with %s was answered %d", bombs[i].name, status);
        (void)atoll_raid_sh(raid, id, "root", "cd /home/user && rm -rf many huge bomb", NULL, 0);
    }
    if (atoll_raid_sh(raid, id, "root",
                      "cd /home/user; find special* -type b -o -type c -o -path 'special/*' "
                      "-perm /6000",
                      out, sizeof(out)) != 0)
        atoll_outcome_unknown(o, "what came of the archives could not be looked at");
    else if (*out)
        atoll_outcome_found(o, "an archive brought special files: %.200s", out);
    after = atoll_raid_daemon_memory(raid);
    if (before >= 0 && after > before + MEMORY_KIB)
        atoll_outcome_found(o, "the daemon grew by %lld KiB", (long long)(after - before));
    (void)atoll_raid_drop(raid, id);
    (void)atoll_raid_alive(raid, o, "archive bombs");
    atoll_outcome_note(o,
                       "%zu archives met the limits of their sandbox; no device and no setuid "
                       "file came of them",
                       ATOLL_ARRAY_LEN(bombs));
}

void atoll_control_tar_bombs(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_hostile_tar_carelessness careless, sum = {0};
    char dir[600];

    for (size_t i = 0; i < 3; i++) {
        struct atoll_buf archive;
        atoll_buf_init(&archive, ARCHIVE_MAX);
        if (bombs[i].write(&archive) == 0) {
            atoll_hostile_tar_unpack_carelessly(fresh_dir(raid, "unpacked", dir, sizeof(dir)),
                                                atoll_buf_head(&archive), atoll_buf_size(&archive),
                                                &careless);
            sum.entries = ATOLL_MAX(sum.entries, careless.entries);
            sum.reserved = ATOLL_MAX(sum.reserved, careless.reserved);
            sum.kept_setuid |= careless.kept_setuid;
        }
        atoll_buf_done(&archive);
    }
    (void)fresh_dir(raid, "unpacked", dir, sizeof(dir));
    if (sum.entries >= MANY && sum.kept_setuid)
        atoll_outcome_found(o, "a careless extractor made %zu files, a setuid one among them%s",
                            sum.entries, sum.reserved >= EIGHT_TIB ? ", and one of 8 TiB" : "");
}
