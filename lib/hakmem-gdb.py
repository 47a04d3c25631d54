# Commands for gdb: what a heap holds, and what a pointer is.
#
#   hakmem heap         threads, bins, arenas
#   hakmem block PTR    pool, bin, state and shard of the block at PTR
#
# They read data only, so they serve a running process and a core file alike.
# Installed beside the library, where gdb loads it by itself; the library's
# debugging information has to be there (Debian: libhakmem1-dbgsym).
#
# SPDX-License-Identifier: MIT

import gdb

GRANULE_SHIFT = 16
SLAB_OUT = 2


class Library:
    """The hakmem in use: that of the preload library if both are loaded."""

    def __init__(self):
        if gdb.selected_thread() is None:
            raise gdb.GdbError("hakmem: no process and no core file is here")
        found = []
        for objfile in gdb.objfiles():
            if "libhakmem" in (objfile.filename or "") or not found:
                symbol = objfile.lookup_global_symbol("hak_page_map")
                if symbol is not None:
                    found.append((objfile, symbol))
        if not found:
            raise gdb.GdbError(
                "hakmem: not in this process, or without its debugging"
                " information")
        found.sort(key=lambda pair: "preload" not in pair[0].filename)
        self.objfile, symbol = found[0]
        self.page_map = symbol.value()
        self.codes = self.enum("hak_code")
        self.states = {
            value: name[len("SLAB_"):].lower()
            for name, value in self.enum("slab_state").items()}
        self.bins = self.get("hak_bins")
        self.shards = self.get("hak_shards")
        self.shard_count = int(self.get("hak_shard_count"))

    @staticmethod
    def enum(name):
        fields = gdb.lookup_type("enum " + name).fields()
        return {field.name: int(field.enumval) for field in fields}

    def get(self, name):
        return self.objfile.lookup_global_symbol(name).value()

    def static(self, function, name):
        """A static variable of the file that defines the function."""
        address = int(self.get(function).address)
        for symbol in gdb.block_for_pc(address).static_block:
            if symbol.name == name:
                return symbol.value()
        raise gdb.GdbError("hakmem: no variable " + name)

    def heaps(self):
        heap = self.get("hak_registry")
        while int(heap) != 0:
            yield heap
            heap = heap["next"]

    def pool(self, code):
        if code < self.codes["L2_FIRST"]:
            return "Tiny"
        if code < self.codes["L25_FIRST"]:
            return "L2"
        return "L2.5" if code < self.codes["BINS"] else "large or huge"

    def entry(self, pointer):
        """Code and descriptor of the granule, as the page map has them."""
        root = int(self.page_map["root"][pointer >> 32 & 0xffff])
        zero = self.page_map["zero"]
        leaf = gdb.Value(int(zero.address) + root).cast(zero.type.pointer())
        index = pointer >> GRANULE_SHIFT & 0xffff
        return int(leaf["code"][index]), leaf["slab"][index]

    def records(self):
        """Checked mode's, of all blocks; none in other modes."""
        shelves = self.get("hak_shelves")
        first, last = shelves.type.range()
        for shelf in (shelves[i] for i in range(first, last + 1)):
            buckets = shelf["buckets"]
            if int(buckets) == 0:
                continue
            for i in range(1 << int(shelf["bits"])):
                record = buckets[i]
                while int(record) != 0:
                    yield record
                    record = record["next"]

    def stack(self, heap, number):
        """Addresses of the free blocks in a thread's front of a bin."""
        cached = heap["bin"][number]
        if int(cached["end"]) == 0:
            return []
        open_bins = int(self.get("hak_open_bins"))
        top = heap["top" if number < open_bins else "real_top"][number]
        start = cached["end"] - int(cached["cap"])
        return [int(start[i]) & ~1 for i in range(int(top - start))]

    def magazines(self, queue):
        """Magazines of a list; the links stand at the head of the chunk."""
        magazine = queue["newest"]
        chunk_type = gdb.lookup_type("struct chunk").pointer()
        while int(magazine) != 0:
            yield magazine
            address = int(magazine)
            chunk = gdb.Value(address >> GRANULE_SHIFT << GRANULE_SHIFT)
            chunk = chunk.cast(chunk_type)
            index = (address - int(chunk["magazine"].address)) // \
                magazine.type.target().sizeof
            magazine = chunk["links"][index]["older"]

    def blocks_of(self, magazine):
        slots = magazine["slot"]
        first, last = slots.type.range()
        return [int(slots[i]) & ~1 for i in range(first + 1, last + 1)]


def where_cached(library, number, block):
    """Which cache a free block waits in, or None."""
    for heap in library.heaps():
        name = "thread {}".format(int(heap["thread"]))
        if block in library.stack(heap, number):
            return "in the front of " + name
        for magazine in library.magazines(heap["bin"][number]["depot"]):
            if block in library.blocks_of(magazine):
                return "in the depot of " + name
    for shard in range(library.shard_count):
        spill = library.shards[shard]["bin"][number]["spill"]
        for magazine in library.magazines(spill):
            if block in library.blocks_of(magazine):
                return "in the spill queue of shard {}".format(shard)
    return None


def block_state(library, slab, number, index, block):
    bits = slab["bits"]
    if int(bits[index // 64]) >> index % 64 & 1:
        return "free, in its slab"
    if int(slab["owner"]) != 0:
        return "in use"
    cached = where_cached(library, number, block)
    return "free, " + cached if cached else "in use"


def show_slab_block(library, slab, pointer):
    number = int(slab["bin"])
    size = int(library.bins[number]["size"])
    base = int(slab["base"])
    index = (pointer - base) // size
    start = base + index * size
    owner = int(slab["owner"])
    print("pool:   " + library.pool(number))
    print("bin:    {}, blocks of {} bytes".format(number, size))
    if index >= int(slab["blocks"]):
        print("block:  none, the tail of the slab")
        return
    inside = pointer - start
    print("block:  {:#x}{}".format(
        start, ", {} bytes before the pointer".format(inside)
        if inside else ""))
    print("state:  " + block_state(library, slab, number, index, start))
    print("slab:   {:#x}, {}, {} of {} blocks free in it".format(
        base, library.states[int(slab["state"])], int(slab["free"]),
        int(slab["blocks"])))
    if owner:
        print("heap:   {:#x}".format(owner))
    else:
        print("shard:  {}".format(int(slab["shard"])))


def show_span(library, slab, pointer):
    print("pool:   " + ("huge" if int(slab["mapped"]) else "large"))
    print("block:  {:#x}, {} bytes".format(
        int(slab["base"]), int(slab["span_bytes"])))
    print("state:  " + ("in use" if int(slab["bits"][SLAB_OUT]) else "free"))
    if int(slab["owner"]):
        print("heap:   {:#x}".format(int(slab["owner"])))


def show_checked(library, pointer):
    """What the program has of the pools' block; false: nothing recorded."""
    for record in library.records():
        if not 0 <= pointer - int(record["raw"]) < int(record["raw_size"]):
            continue
        block, size = int(record["block"]), int(record["size"])
        page = int(record["page"])
        if page and page <= pointer < page + int(library.get("hak_page_size")):
            place = "in its guard page"
        elif block <= pointer < block + max(size, 1):
            place = "in it"
        else:
            place = "outside it"
        print("checked: {:#x}, {} bytes, {}, the pointer is {}".format(
            block, size, "freed" if record["freed"] else "in use", place))
        return True
    return False


class Hakmem(gdb.Command):
    """Look into the hakmem allocator: heap, block."""

    def __init__(self):
        super().__init__("hakmem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


def pointer_of(argument):
    try:
        value = gdb.parse_and_eval(argument)
    except gdb.error as error:
        raise gdb.GdbError("hakmem: block: " + str(error))
    try:
        return int(value) & ((1 << 64) - 1)
    except gdb.error:
        raise gdb.GdbError("hakmem: block: not a pointer: " + argument)


class HakmemBlock(gdb.Command):
    """hakmem block PTR: pool, bin, state and shard of the block at PTR."""

    def __init__(self):
        super().__init__("hakmem block", gdb.COMMAND_DATA,
                         gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, _):
        if not argument:
            raise gdb.GdbError("hakmem: block: a pointer is needed")
        pointer = pointer_of(argument)
        library = Library()
        checked = show_checked(library, pointer)
        code, slab = library.entry(pointer)
        if pointer >> 48 or code == 0 or int(slab) == 0:
            # Of a huge block the page map has the beginning only.
            if not checked:
                print("{:#x}: no block of hakmem".format(pointer))
        elif int(slab["bin"]) < library.codes["BINS"]:
            show_slab_block(library, slab, pointer)
        else:
            show_span(library, slab, pointer)


def show_threads(library):
    print("thread      shard  cached bytes  in depots")
    for heap in library.heaps():
        held = 0
        for number in range(1, library.codes["BINS"]):
            held += len(library.stack(heap, number)) * \
                int(library.bins[number]["size"])
        depots = int(heap["depot_bytes"])
        print("{:<10}  {:>5}  {:>12}  {:>9}".format(
            int(heap["thread"]), int(heap["shard"]), held + depots, depots))


def show_bins(library):
    print("shard  bin     size  slabs   blocks  in slabs  warm  listed  spill")
    for shard in range(library.shard_count):
        for number in range(1, library.codes["BINS"]):
            slabs = library.shards[shard]["bin"][number]
            if int(slabs["slabs"]) == 0:
                continue
            blocks, taken = int(slabs["blocks"]), int(slabs["taken"])
            print("{:>5}  {:>3}  {:>7}  {:>5}  {:>7}  {:>8}  {:>4}  {:>6}"
                  "  {:>5}".format(
                      shard, number, int(library.bins[number]["size"]),
                      int(slabs["slabs"]), blocks, blocks - taken,
                      int(slabs["warm"]["count"]),
                      int(slabs["listed"]["count"]),
                      int(slabs["spill"]["count"])))


def show_arenas(library):
    print("arena             granules   free  resident and free")
    arena = library.static("hak_arena_visit", "arenas")
    while int(arena) != 0:
        dirty = arena["dirty"]
        first, last = dirty.type.range()
        count = sum(bin(int(dirty[i])).count("1")
                    for i in range(first, last + 1))
        print("{:<16x}  {:>8}  {:>5}  {:>17}".format(
            int(arena["base"]), int(arena["granules"]),
            int(arena["free_count"]), count))
        arena = arena["next"]


class HakmemHeap(gdb.Command):
    """hakmem heap: threads, bins and arenas of the allocator."""

    def __init__(self):
        super().__init__("hakmem heap", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

    def invoke(self, argument, _):
        if argument:
            raise gdb.GdbError("hakmem: heap: takes no argument")
        library = Library()
        show_threads(library)
        print()
        show_bins(library)
        print()
        show_arenas(library)


Hakmem()
HakmemBlock()
HakmemHeap()
