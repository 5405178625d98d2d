/* Stacks as text, and the plans of sandboxes and builders that have them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "proto/plan.h"
#include "sandbox/plan_builder.h"
#include "sandbox/spec_layers.h"
#include "sandbox/stack.h"
#include "test.h"

static const struct atoll_plan_host host = {.root = true, .stacks = true};

static struct atoll_spec spec_of(enum atoll_builder builder, const char *layers)
{
    struct atoll_spec spec = {.builder = builder,
                              .template_kind = layers ? ATOLL_TEMPLATE_ROOTFS : ATOLL_TEMPLATE_HOST,
                              .layers = layers,
                              .layer_base = ATOLL_LAYER_BASE,
                              .outside_id = 1u << 28,
                              .tenant = "me"};
    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static int try_build(const struct atoll_plan_host *of, const struct atoll_spec *spec,
                     struct atoll_buf *ret, struct atoll_error *err)
{
    struct atoll_buf seccomp;
    int r;

    atoll_buf_init(ret, ATOLL_PLAN_MAX);
    atoll_buf_init(&seccomp, 64);
    r = atoll_plan_build(of, spec, &seccomp, ret, err);
    atoll_buf_done(&seccomp);
    return r;
}

static struct atoll_buf build(const struct atoll_spec *spec)
{
    struct atoll_error err = {0};
    struct atoll_buf plan;

    if (try_build(&host, spec, &plan, &err) < 0)
        fail_msg("%s", err.text);
    return plan;
}

static bool find(const struct atoll_buf *plan, enum atoll_plan_op op, size_t nth,
                 const struct atoll_msg_desc *desc, void *ret)
{
    const uint8_t *p = atoll_buf_head(plan);
    size_t n = atoll_buf_size(plan);
    struct atoll_plan_step step;
    struct atoll_error err;

    while (atoll_plan_next(&p, &n, &step) > 0) {
        if (step.op != op || nth-- > 0)
            continue;
        if (desc)
            assert_int_equal(atoll_msg_decode(desc, step.payload, step.len, ret, &err), 0);
        return true;
    }
    return false;
}

static void names_are_read_from_the_bottom(void **state)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *pos = "one two three";

    (void)state;
    assert_int_equal(atoll_stack_count(pos), 3);
    assert_int_equal(atoll_stack_count(NULL), 0);
    assert_int_equal(atoll_stack_count(""), 0);
    assert_true(atoll_stack_has(pos, "three"));
    assert_false(atoll_stack_has(pos, "thre"));
    assert_false(atoll_stack_has(pos, "one two"));
    assert_true(atoll_stack_next(&pos, name));
    assert_string_equal(name, "one");
    assert_true(atoll_stack_next(&pos, name) && atoll_stack_next(&pos, name));
    assert_string_equal(name, "three");
    assert_false(atoll_stack_next(&pos, name));
}

static void what_is_no_stack_is_refused(void **state)
{
    char many[ATOLL_STACK_CAP + 200] = "l";
    static const char *const bad[] = {
        "",     " ",
        "a ",   " a",
        "a  b", "a ../b",
        "a/b",  "a .",
        "a\nb", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        if (atoll_stack_check(bad[i], &err) == 0)
            fail_msg("\"%s\" is taken for a stack", bad[i]);
    for (size_t i = 1; i < ATOLL_LAYERS_MAX; i++)
        (void)strcat(many, " l");
    assert_int_equal(atoll_stack_check(many, &err), 0);
    (void)strcat(many, " l");
    assert_true(atoll_stack_check(many, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
}

static void a_lower_layer_of_the_same_name_is_left_out(void **state)
{
    char names[ATOLL_LAYERS_MAX][ATOLL_LAYER_NAME_MAX + 1];

    (void)state;
    assert_int_equal(atoll_stack_split("a e b e c e", names), 4);
    assert_string_equal(names[0], "e");
    assert_string_equal(names[1], "c");
    assert_string_equal(names[2], "b");
    assert_string_equal(names[3], "a");
    assert_int_equal(atoll_stack_split("a", names), 1);
    assert_int_equal(atoll_stack_split("", names), 0);
}

static void copies_are_owned(void **state)
{
    char layers[] = "a b", path[] = "/x", name[] = "n";
    struct atoll_tree tree = {path, layers, NULL, false};
    struct atoll_cache cache = {ATOLL_CACHE_KEPT, path, name},
                       scratch = {.path = path, .kind = ATOLL_CACHE_FILE};
    const struct atoll_cache caches[] = {cache, scratch};
    struct atoll_spec spec = {
        .layers = layers, .trees = &tree, .tree_count = 1, .caches = caches, .cache_count = 2};

    (void)state;
    atoll_spec_own_layers(&spec);
    layers[0] = path[0] = name[0] = '!';
    assert_string_equal(spec.layers, "a b");
    assert_string_equal(spec.trees[0].layers, "a b");
    assert_string_equal(spec.caches[0].path, "/x");
    assert_string_equal(spec.caches[0].name, "n");
    assert_null(spec.caches[1].name);
    atoll_spec_free_layers(&spec);
    assert_null(spec.layers);
    atoll_spec_free_layers(&spec);
}

static void a_stack_is_one_mount(void **state)
{
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_NONE, "low mid low high");
    struct atoll_buf plan = build(&spec);
    struct atoll_po_overlay overlay;
    struct atoll_po_layer layer;
    size_t layers = 0;

    (void)state;
    for (; find(&plan, ATOLL_PLAN_LAYER, layers, &atoll_po_layer_desc, &layer); layers++)
        if (strcmp(layer.slot, ATOLL_SLOT_STACK) == 0)
            assert_string_equal(layer.source, "layers");
    assert_int_equal(layers, 2);
    assert_true(find(&plan, ATOLL_PLAN_OVERLAY, 0, &atoll_po_overlay_desc, &overlay));
    assert_string_equal(overlay.lowers, "tools");
    assert_int_equal(overlay.stack.len, 3);
    assert_string_equal(overlay.stack.items[0], "high");
    assert_string_equal(overlay.stack.items[2], "mid");
    assert_true(overlay.userxattr && overlay.writable);
    atoll_msg_done(&atoll_po_overlay_desc, &overlay);
    atoll_buf_done(&plan);
}

/* As rows of earlier versions have it: the same mount as then. */
static void a_single_layer_of_earlier_is_mounted_as_before(void **state)
{
    struct atoll_plan_host old = host;
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_NONE, "");
    struct atoll_po_overlay overlay;
    struct atoll_po_layer layer;
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    old.stacks = false;
    (void)snprintf(spec.layer, sizeof(spec.layer), "old");
    assert_int_equal(try_build(&old, &spec, &plan, &err), 0);
    assert_true(find(&plan, ATOLL_PLAN_OVERLAY, 0, &atoll_po_overlay_desc, &overlay));
    assert_string_equal(overlay.lowers, "tools:base");
    assert_int_equal(overlay.stack.len, 0);
    assert_false(overlay.userxattr);
    assert_true(find(&plan, ATOLL_PLAN_LAYER, 1, &atoll_po_layer_desc, &layer));
    assert_string_equal(layer.source, "layers/old");
    atoll_msg_done(&atoll_po_overlay_desc, &overlay);
    atoll_buf_done(&plan);
}

static void an_earlier_spawn_is_named(void **state)
{
    struct atoll_plan_host old = host;
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_NONE, "a");
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    old.stacks = false;
    assert_true(try_build(&old, &spec, &plan, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "earlier version"));
    atoll_buf_done(&plan);
    spec = spec_of(ATOLL_BUILDER_NONE, NULL); /* the host template needs none */
    assert_int_equal(try_build(&old, &spec, &plan, &err), 0);
    atoll_buf_done(&plan);
}

/* Nothing is written to the writable layer of a step: it becomes a layer. */
static void a_step_has_only_mounts(void **state)
{
    static const char *const targets[] = {"etc/hostname", "etc/hosts", "etc/resolv.conf", ".atoll"};
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_STEP, "a b");
    struct atoll_buf plan = build(&spec);
    struct atoll_po_overlay overlay;
    struct atoll_po_bind bind;
    struct atoll_po_disk disk;

    (void)state;
    assert_false(find(&plan, ATOLL_PLAN_FILE, 0, NULL, NULL));
    assert_false(find(&plan, ATOLL_PLAN_DIRECTORY, 0, NULL, NULL));
    assert_true(find(&plan, ATOLL_PLAN_OVERLAY, 0, &atoll_po_overlay_desc, &overlay));
    assert_string_equal(overlay.lowers, "tools:mounts");
    atoll_msg_done(&atoll_po_overlay_desc, &overlay);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(targets); i++) {
        assert_true(find(&plan, ATOLL_PLAN_BIND, i, &atoll_po_bind_desc, &bind));
        assert_string_equal(bind.target, targets[i]);
    }
    assert_false(find(&plan, ATOLL_PLAN_BIND, ATOLL_ARRAY_LEN(targets), NULL, NULL));
    assert_true(find(&plan, ATOLL_PLAN_DISK, 0, &atoll_po_disk_desc, &disk));
    assert_int_equal(disk.kind, ATOLL_DISK_PLAIN);
    atoll_buf_done(&plan);
}

static void only_builders_have_trees_and_caches(void **state)
{
    static const struct atoll_tree good = {"/.atoll/a", "a", NULL, false},
                                   bad[] = {{"a", "a", NULL, false},
                                            {"/a/../b", "a", NULL, false},
                                            {"/a", "", NULL, false},
                                            {"/", "a", NULL, false}};
    static const struct atoll_cache cache = {ATOLL_CACHE_KEPT, "/a", "x"},
                                    nameless[] = {{ATOLL_CACHE_KEPT, "/a", NULL},
                                                  {ATOLL_CACHE_KEPT, "/a", "../x"},
                                                  {ATOLL_CACHE_SCRATCH, "a", NULL}};
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_NONE, "a");
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    spec.trees = &good;
    spec.tree_count = 1;
    assert_true(try_build(&host, &spec, &plan, &err) < 0);
    spec.builder = ATOLL_BUILDER_STEP;
    assert_int_equal(try_build(&host, &spec, &plan, &err), 0);
    atoll_buf_done(&plan);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        spec.trees = &bad[i];
        assert_true(try_build(&host, &spec, &plan, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    spec.tree_count = ATOLL_TREES_MAX + 1;
    assert_true(try_build(&host, &spec, &plan, &err) < 0);
    spec.tree_count = 0;
    spec.caches = &cache;
    spec.cache_count = 1;
    assert_int_equal(try_build(&host, &spec, &plan, &err), 0);
    atoll_buf_done(&plan);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(nameless); i++) {
        spec.caches = &nameless[i];
        assert_true(try_build(&host, &spec, &plan, &err) < 0);
    }
    spec.builder = ATOLL_BUILDER_NONE;
    spec.caches = &cache;
    assert_true(try_build(&host, &spec, &plan, &err) < 0);
}

static void a_raw_tree_has_layers_as_they_are(void **state)
{
    struct atoll_tree tree = {.path = "/.atoll/layer", .layers = "a", .raw = true};
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_UNPACK, NULL);
    struct atoll_po_bind bind;
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    spec.template_kind = ATOLL_TEMPLATE_HOST;
    spec.trees = &tree;
    spec.tree_count = 1;
    assert_int_equal(try_build(&host, &spec, &plan, &err), 0);
    assert_true(find(&plan, ATOLL_PLAN_BIND, 1, &atoll_po_bind_desc, &bind));
    assert_int_equal(bind.kind, ATOLL_BIND_LAYER);
    assert_string_equal(bind.target, ".atoll/layer");
    assert_string_equal(bind.name, "a");
    atoll_buf_done(&plan);
    tree.layers = "a b";
    assert_int_equal(try_build(&host, &spec, &plan, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_true(find(&plan, ATOLL_PLAN_BIND, 1 + i, &atoll_po_bind_desc, &bind));
        assert_string_equal(bind.target, i ? ".atoll/layer/1" : ".atoll/layer/0");
        assert_string_equal(bind.name, i ? "b" : "a");
    }
    atoll_buf_done(&plan);
}

static void a_builder_has_the_root_of_its_form(void **state)
{
    struct atoll_spec step = spec_of(ATOLL_BUILDER_STEP, NULL),
                      unpack = spec_of(ATOLL_BUILDER_UNPACK, "a");
    struct atoll_error err;
    struct atoll_buf plan;

    (void)state;
    assert_true(try_build(&host, &step, &plan, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_true(try_build(&host, &unpack, &plan, &err) < 0);
}

/* The largest plan fits: every tree of the most layers, and the root too. */
static void the_most_of_all_fits(void **state)
{
    static char layers[ATOLL_STACK_CAP];
    struct atoll_spec spec = spec_of(ATOLL_BUILDER_STEP, layers);
    struct atoll_tree trees[ATOLL_TREES_MAX];
    struct atoll_cache caches[ATOLL_CACHES_MAX];
    struct atoll_error err = {0};
    struct atoll_buf plan;

    (void)state;
    for (int i = 0; i < ATOLL_LAYERS_MAX; i++)
        (void)snprintf(layers + strlen(layers), sizeof(layers) - strlen(layers), "%s%064d",
                       i ? " " : "", i);
    assert_int_equal(strlen(layers) + 1, ATOLL_STACK_CAP);
    for (size_t i = 0; i < ATOLL_TREES_MAX; i++)
        trees[i] = (struct atoll_tree){"/.atoll/tree", layers, NULL, false};
    for (size_t i = 0; i < ATOLL_CACHES_MAX; i++)
        caches[i] = (struct atoll_cache){ATOLL_CACHE_KEPT, "/cache", "name"};
    spec.trees = trees;
    spec.tree_count = ATOLL_TREES_MAX;
    spec.caches = caches;
    spec.cache_count = ATOLL_CACHES_MAX;
    if (try_build(&host, &spec, &plan, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(atoll_buf_size(&plan) < ATOLL_PLAN_MAX - 16384); /* room for the filter */
    atoll_buf_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_from_the_bottom),
        cmocka_unit_test(what_is_no_stack_is_refused),
        cmocka_unit_test(a_lower_layer_of_the_same_name_is_left_out),
        cmocka_unit_test(copies_are_owned),
        cmocka_unit_test(a_stack_is_one_mount),
        cmocka_unit_test(a_single_layer_of_earlier_is_mounted_as_before),
        cmocka_unit_test(an_earlier_spawn_is_named),
        cmocka_unit_test(a_step_has_only_mounts),
        cmocka_unit_test(only_builders_have_trees_and_caches),
        cmocka_unit_test(a_raw_tree_has_layers_as_they_are),
        cmocka_unit_test(a_builder_has_the_root_of_its_form),
        cmocka_unit_test(the_most_of_all_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
