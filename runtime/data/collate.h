// One batch: items read into a slot of the input arena and put side by side.
//
//   slot:  | field 0: its items, one behind the other | its lengths | field 1 | .. | arrays of the user's collation |
//
// Items are read where they stay: a field of fixed size, and a variable one without padding, is finished when its last item
// was read. With padding the items move apart, the last one first, to the longest length of the batch.
#ifndef TN_RUNTIME_DATA_COLLATE_H
#define TN_RUNTIME_DATA_COLLATE_H

#include "runtime/data/batch.h"
#include "runtime/data/row_batches.h"

typedef enum { RT_PADDED, RT_TIME_MAJOR, RT_CONCATENATED } RtLayout;  // as tn_layout

typedef struct {
  const RtArray *arrays;  // [n][n_fields]
  uint32_t n_fields;
  size_t n;
  const size_t *index;    // NULL: a stream
  const int64_t *starts;  // by item: the row of it that is the first here; NULL: all are whole
} RtItems;

typedef struct {
  RtField fields[RT_MAX_FIELDS];  // whole arrays, the batch axis included
  uint32_t n_fields;
  bool (*fn)(void *ctx, const RtItems *items, RtArray *out, char *error, size_t error_size);  // NULL: none
  void *ctx;
} RtCollate;

typedef struct {
  const RtDataset *data;
  size_t batch_size;
  RtLayout layout;
  RtCollate custom;
  bool may_view;  // consecutive rows in memory are shown as they are
  // Filled by rows: no batch has a longer sequence or more rows of the measured field, nor more of items times the longest.
  // INT64_MAX: bound and batch_size say so. reads_parts: no item is read that has more rows than it is to have here
  bool is_by_rows, is_cut, reads_parts;  // is_cut: items come in pieces, and array FIELD.starts says where each begins
  int64_t most_length, most_rows, most_padded;
  uint32_t n_arrays;
  char names[RT_MAX_BATCH_ARRAYS][RT_ARRAY_NAME];                                   // of the arrays of a batch
  uint32_t picks[RT_MAX_BATCH_ARRAYS];                                              // which of all arrays each one is
  size_t data_at[RT_MAX_FIELDS], lengths_at[RT_MAX_FIELDS], out_at[RT_MAX_FIELDS];  // bytes in a slot
  size_t index_at, pieces_at, starts_at, items_at;
  int64_t bytes;  // of a slot
} RtBatchForm;

enum { RT_SLOT_ERROR = 1024 };
typedef struct {
  unsigned char *mem;
  uint64_t epoch;
  size_t n;                     // items
  int64_t used[RT_MAX_FIELDS];  // rows of variable fields, of the items read so far
  RtArray arrays[RT_MAX_BATCH_ARRAYS];
  bool failed;
  char error[RT_SLOT_ERROR];
} RtBatchSlot;

// What stands before n_arrays is set; inputs NULL: all arrays in their order.
bool rt_form_init(RtBatchForm *f, const char *const *inputs, uint32_t n_inputs, char *error, size_t error_size);
size_t *rt_slot_index(const RtBatchForm *f, const RtBatchSlot *s);
RtItemPart *rt_slot_pieces(const RtBatchForm *f, const RtBatchSlot *s);  // of a form that is_by_rows
// Where item i of the slot goes, behind those that were kept.
RtItem rt_slot_item(const RtBatchForm *f, RtBatchSlot *s, size_t i, const RtHalt *halt);
void rt_slot_keep_lengths(const RtBatchForm *f, RtBatchSlot *s, size_t i, const RtItem *item);  // of item i, just read
// Reads s->n items by the slot's index, or its pieces; `bad` is the position of the one that failed.
bool rt_slot_read(const RtBatchForm *f, RtBatchSlot *s, const RtHalt *halt, size_t *bad);
// All s->n items are there: fills s->arrays.
bool rt_slot_finish(const RtBatchForm *f, RtBatchSlot *s);

#endif
