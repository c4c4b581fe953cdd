"""Reads what `dmscope export` has written, with the tools that it is written for, and says what is in it as JSON.

    read_exports.py tables FOLDER QUERY...    answers of DuckDB; {calls}, {messages}, … stand for the tables
    read_exports.py perfetto FILE             what Perfetto's own classes find in a trace
"""

import json
import sys


def tables(folder, *queries):
    import duckdb

    names = ["calls", "messages", "movements", "findings", "gaps"]
    paths = {name: f"'{folder}/{name}.parquet'" for name in names}
    return [duckdb.sql(query.format(**paths)).fetchall() for query in queries]


def perfetto(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    names, found, clocks = {}, {}, []
    kinds = {value: name for name, value in protos.TrackEvent.Type.items()}
    for packet in trace.packet:
        # What this version of the format does not know was written wrongly.
        assert packet.ByteSize() == len(packet.SerializeToString())
        names.update((name.iid, name.name) for name in packet.interned_data.event_names)
        if packet.HasField("clock_snapshot"):
            clocks.append([clock.clock_id for clock in packet.clock_snapshot.clocks])
        if packet.HasField("track_event"):
            event = packet.track_event
            name = event.name or names.get(event.name_iid, "")
            what = "MPI" if name.startswith("MPI_") else "other"
            key = f"{kinds[event.type]} {what}" if event.type != protos.TrackEvent.TYPE_SLICE_END else "end"
            found[key] = found.get(key, 0) + 1
    processes = [packet.track_descriptor.process.process_name for packet in trace.packet
                 if packet.track_descriptor.HasField("process")]
    return {"events": found, "clocks": clocks, "processes": sorted(processes)}


if __name__ == "__main__":
    print(json.dumps({"tables": tables, "perfetto": perfetto}[sys.argv[1]](*sys.argv[2:])))
